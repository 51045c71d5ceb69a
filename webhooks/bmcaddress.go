// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	systemsPath    = "/redfish/v1/Systems/"
	defaultBMCPort = 443
)

// bmcAddress is a BMC's address in canonical form, so that equal ones compare equal.
type bmcAddress struct {
	// host is host:port, lower case, IP addresses in their shortest form.
	host string
	// system is the path of the system; empty: the only one that the BMC has.
	system string
}

// sameSystem reports whether two addresses can lead to the same system. An
// address without a path takes whatever system the BMC has.
func (a bmcAddress) sameSystem(b bmcAddress) bool {
	return a.host == b.host && (a.system == b.system || a.system == "" || b.system == "")
}

// parseBMCAddress reads redfish://host[:port][/redfish/v1/Systems/<id>]. Errors
// say what is wrong and what to write, and never repeat a user name or password.
func parseBMCAddress(address string) (bmcAddress, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil: // its text repeats the address
		return bmcAddress{}, errors.New("is not a URL; write redfish://host[:port], an IPv6 address in brackets")
	case u.Scheme != "redfish":
		return bmcAddress{}, fmt.Errorf("must begin with redfish://, not %s://; it speaks HTTPS", u.Scheme)
	case u.User != nil:
		return bmcAddress{}, errors.New("must not hold a user name or password; put them into the Secret of credentialsRef")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return bmcAddress{}, errors.New("must not hold a query or fragment; remove what follows ? or #")
	}
	port, err := bmcPort(u.Port())
	if err != nil {
		return bmcAddress{}, err
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return bmcAddress{}, err
	}
	system := strings.TrimRight(u.EscapedPath(), "/")
	if id, ok := strings.CutPrefix(system, systemsPath); system != "" && (!ok || id == "." || id == ".." || strings.Contains(id, "/")) {
		return bmcAddress{}, fmt.Errorf("must name a system as %s<id>; correct the path, or leave it out where the BMC has one system", systemsPath)
	}
	return bmcAddress{host: net.JoinHostPort(host, strconv.Itoa(port)), system: system}, nil
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
	if len(validation.IsDNS1123Subdomain(name)) > 0 || looksLikeIPv4(name) {
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
