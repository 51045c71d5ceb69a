// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmcaddress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const (
	systemsPath    = "/redfish/v1/Systems/"
	defaultBMCPort = 443
	maxName        = 253 // RFC 1035, section 2.3.4, without the dots at the ends
)

// namePattern matches DNS names in lower case (RFC 1123, section 2.1). It is
// never written to.
var namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)

// Address is a BMC's address in canonical form, so that equal ones compare equal.
type Address struct {
	// Host is host:port, lower case, IP addresses in their shortest form.
	Host string
	// System is the path of the system; empty: the only one that the BMC has.
	System string
}

// SameSystem reports whether two addresses can lead to the same system. An
// address without a path takes whatever system the BMC has.
func (a Address) SameSystem(b Address) bool {
	return a.Host == b.Host && (a.System == b.System || a.System == "" || b.System == "")
}

// Parse reads redfish://host[:port][/redfish/v1/Systems/<id>]. Errors say what is
// wrong and what to write, and never repeat a user name or password.
func Parse(address string) (Address, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil: // its text repeats the address
		return Address{}, errors.New("is not a URL; write redfish://host[:port], an IPv6 address in brackets")
	case u.Scheme != "redfish":
		return Address{}, fmt.Errorf("must begin with redfish://, not %s://; it speaks HTTPS", u.Scheme)
	case u.User != nil:
		return Address{}, errors.New("must not hold a user name or password; put them into the Secret of credentialsRef")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return Address{}, errors.New("must not hold a query or fragment; remove what follows ? or #")
	}
	port, err := bmcPort(u.Port())
	if err != nil {
		return Address{}, err
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return Address{}, err
	}
	system := strings.TrimRight(u.EscapedPath(), "/")
	if id, ok := strings.CutPrefix(system, systemsPath); system != "" && (!ok || id == "." || id == ".." || strings.Contains(id, "/")) {
		return Address{}, fmt.Errorf("must name a system as %s<id>; correct the path, or leave it out where the BMC has one system", systemsPath)
	}
	return Address{Host: net.JoinHostPort(host, strconv.Itoa(port)), System: system}, nil
}

func bmcPort(text string) (int, error) {
	if text == "" {
		return defaultBMCPort, nil
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return 0, fmt.Errorf("must have a port of 1 to 65535, not %s; leave it out for %d", text, defaultBMCPort)
	}
	return port, nil
}

func canonicalHost(host string) (string, error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return "", fmt.Errorf("must not name the zone %s, which means another thing on each machine; use a routed address", ip.Zone())
		}
		return ip.Unmap().String(), nil
	}
	if strings.Contains(host, ":") {
		return "", errors.New("must have an IPv6 address in brackets; write redfish://[2001:db8::9], or a DNS name as host")
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if len(name) > maxName || !namePattern.MatchString(name) || looksLikeIPv4(name) {
		return "", fmt.Errorf("must have an IP address or a DNS name as host, not %q", host)
	}
	return name, nil
}

// looksLikeIPv4 reports names whose last label is a number: no such top-level
// domain exists (RFC 3696, section 2), so it is an address with a slip.
func looksLikeIPv4(name string) bool {
	last := name[strings.LastIndex(name, ".")+1:]
	_, err := strconv.Atoi(last)
	return err == nil && strings.Contains(name, ".")
}
