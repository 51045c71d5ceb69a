// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package normalize

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// The forms that the schemas accept. MAC addresses are printed in pairs (IEEE 802 section 8.1), in
// groups of four (Cisco), as two halves (HPE), and without separators.
var (
	macForms = regexp.MustCompile(
		`^(?:[0-9a-f]{2}(?::[0-9a-f]{2}){5}|[0-9a-f]{2}(?:-[0-9a-f]{2}){5}|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}|[0-9a-f]{6}-[0-9a-f]{6}|[0-9a-f]{12})$`)
	checksumForm = regexp.MustCompile(`^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)
	labelForm    = regexp.MustCompile(`^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$`)
	domainForm   = regexp.MustCompile(`^[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?$`)
	bmcScheme    = regexp.MustCompile(`^(?:redfish(?:\+http)?|ipmi|vendor\+[a-z0-9]+(?:-[a-z0-9]+)*)$`)
	hostForm     = regexp.MustCompile(`^[A-Za-z0-9](?:[-A-Za-z0-9.]*[A-Za-z0-9])?$`)
)

// MAC returns a 48-bit MAC address in lower case with colons.
func MAC(text string) string {
	lower, ok := lowered(text)
	if !ok || !macForms.MatchString(lower) {
		return text
	}
	digits := strings.NewReplacer(":", "", "-", "", ".", "").Replace(lower)
	var pairs []string
	for pair := range slices.Chunk([]byte(digits), 2) {
		pairs = append(pairs, string(pair))
	}
	return strings.Join(pairs, ":")
}

// Checksum returns a checksum in lower case. Digits without an algorithm stay unchanged, because
// several algorithms have sums of that length.
func Checksum(text string) string {
	if lower, ok := lowered(text); ok && checksumForm.MatchString(lower) {
		return lower
	}
	return text
}

// Hostname returns a DNS label in lower case. DNS ignores the case (RFC 4343), and Node names are
// lower case.
func Hostname(text string) string {
	if lower, ok := lowered(text); ok && labelForm.MatchString(lower) {
		return lower
	}
	return text
}

// Domain returns a DNS name in lower case without the final dot of an absolute name (RFC 1034
// section 3.1): the domain of a network is always absolute.
func Domain(text string) string {
	lower, ok := lowered(text)
	if lower = strings.TrimSuffix(lower, "."); ok && domainForm.MatchString(lower) {
		return lower
	}
	return text
}

// EndpointHost returns the host of an API server without the brackets of an IPv6 address and
// without the final dot of an absolute name. The case stays, because the schema accepts both.
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

// BMCAddress returns a BMC address without surrounding spaces and with its scheme in lower case
// (RFC 3986 section 3.1). Host and path stay as written; Ingot compares them by meaning. An
// address with a user name stays unchanged, because it is rejected.
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

// URL returns a URL without surrounding spaces, such as the line end of a YAML block. A URL that
// is valid with a final space stays unchanged.
func URL(text string) string {
	if _, err := url.ParseRequestURI(text); err == nil || strings.Contains(text, "@") {
		return text
	}
	return strings.TrimSpace(text)
}

// lowered returns text in lower case without surrounding spaces. It returns false if text contains
// non-ASCII letters, some of which become ASCII in lower case.
func lowered(text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if strings.ContainsFunc(trimmed, func(r rune) bool { return r > 0x7e }) {
		return text, false
	}
	return strings.ToLower(trimmed), true
}
