// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package normalize

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// What the schemas take, and the ways in which MAC addresses are printed: in pairs
// (IEEE 802, section 8.1), in fours (Cisco), as two halves (HPE) and bare. None is
// ever written to.
var (
	macForms = regexp.MustCompile(
		`^(?:[0-9a-f]{2}(?::[0-9a-f]{2}){5}|[0-9a-f]{2}(?:-[0-9a-f]{2}){5}|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}|[0-9a-f]{6}-[0-9a-f]{6}|[0-9a-f]{12})$`)
	checksumForm = regexp.MustCompile(`^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)
	labelForm    = regexp.MustCompile(`^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$`)
	domainForm   = regexp.MustCompile(`^[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?$`)
	bmcScheme    = regexp.MustCompile(`^(?:redfish(?:\+http)?|ipmi|vendor\+[a-z0-9]+(?:-[a-z0-9]+)*)$`)
	hostForm     = regexp.MustCompile(`^[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?$`)
)

// MAC returns a MAC address of 48 bits in lower case with colons.
func MAC(text string) string {
	lower, ok := lowered(text)
	if !ok || !macForms.MatchString(lower) {
		return text
	}
	digits := strings.NewReplacer(":", "", "-", "", ".", "").Replace(lower)
	pairs := make([]string, 0, len(digits)/2)
	for i := 0; i < len(digits); i += 2 {
		pairs = append(pairs, digits[i:i+2])
	}
	return strings.Join(pairs, ":")
}

// Checksum returns a checksum in lower case. Digits without an algorithm stay as
// they are: several algorithms have sums of that length.
func Checksum(text string) string {
	if lower, ok := lowered(text); ok && checksumForm.MatchString(lower) {
		return lower
	}
	return text
}

// Hostname returns one label of a DNS name in lower case: case has no meaning in
// them (RFC 4343), and Nodes are named in lower case.
func Hostname(text string) string {
	if lower, ok := lowered(text); ok && labelForm.MatchString(lower) {
		return lower
	}
	return text
}

// Domain returns a DNS name in lower case, without the dot that says that it is
// absolute (RFC 1034, section 3.1): the domain of a network always is.
func Domain(text string) string {
	lower, ok := lowered(text)
	if lower = strings.TrimSuffix(lower, "."); ok && domainForm.MatchString(lower) {
		return lower
	}
	return text
}

// EndpointHost returns the host of an API server without the brackets of an IPv6
// address, which belong to URLs, and without the dot of an absolute name. Its case
// stays: the schema takes either.
func EndpointHost(text string) string {
	trimmed := strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(trimmed, "["); ok {
		inner, closed := strings.CutSuffix(inner, "]")
		if ip, err := netip.ParseAddr(inner); closed && err == nil && ip.Is6() && !ip.Is4In6() && ip.Zone() == "" {
			return inner
		}
		return text
	}
	if ip, err := netip.ParseAddr(trimmed); err == nil && ip.Zone() == "" {
		return trimmed
	}
	name := strings.TrimSuffix(trimmed, ".")
	if _, err := netip.ParseAddr(name); err == nil || !hostForm.MatchString(name) {
		return text // an address has no final dot
	}
	return name
}

// BMCAddress returns the address of a BMC without the spaces around it, and with its
// scheme in lower case (RFC 3986, section 3.1). Host and path stay as they are
// written; Ingot compares them by meaning. One with a user name is refused, so it is
// not touched.
func BMCAddress(text string) string {
	trimmed := strings.TrimSpace(text)
	if strings.Contains(text, "@") {
		return text
	}
	scheme, rest, found := strings.Cut(trimmed, "://")
	if !found {
		if _, err := bmcaddress.Parse(trimmed); err != nil {
			return text
		}
		return trimmed
	}
	lower, ok := lowered(scheme)
	if !ok || rest == "" || !bmcScheme.MatchString(lower) {
		return text
	}
	if _, err := bmcaddress.Parse(text); err == nil && strings.HasPrefix(text, lower+"://") {
		return text // a path may end with a space
	}
	return lower + "://" + rest
}

// URL returns a URL without the spaces around it, such as the line end of a YAML
// block. One that parses with a space at its end keeps it: it may be meant.
func URL(text string) string {
	if _, err := url.ParseRequestURI(text); err == nil || strings.Contains(text, "@") {
		return text
	}
	return strings.TrimSpace(text)
}

// lowered returns text in lower case without spaces around it; false if it holds
// letters beyond ASCII, some of which become ASCII in lower case.
func lowered(text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	for _, r := range trimmed {
		if r > 0x7e {
			return text, false
		}
	}
	return strings.ToLower(trimmed), true
}
