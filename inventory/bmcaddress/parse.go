// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmcaddress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

const (
	serviceRoot = "/redfish/v1"
	systemsPath = serviceRoot + "/Systems/"
	maxName     = 253 // RFC 1035, section 2.3.4, without the dots at the ends
	forms       = "redfish://, redfish+http://, ipmi:// or vendor+<driver>://, or a host alone"
)

// DNS names in lower case (RFC 1123, section 2.1), schemes (RFC 3986, section 3.1) and the names
// of drivers.
var (
	namePattern   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)
	schemePattern = regexp.MustCompile(`^[a-z][a-z0-9+.-]*$`)
	driverPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
)

// Parse parses an address in any of the package's forms. Errors have a remedy, and never repeat a
// user name or password.
func Parse(address string) (Address, error) {
	switch {
	case strings.Contains(address, "@"):
		return Address{}, errors.New("must not hold a user name or password; put them into the Secret of credentialsRef")
	case strings.ContainsAny(address, "?#"):
		return Address{}, errors.New("must not hold a query or fragment; remove what follows ? or #")
	}
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return parseBare(address)
	}
	a := Address{Scheme: Scheme(strings.ToLower(scheme))}
	if err := a.Scheme.check(rest); err != nil {
		return Address{}, err
	}
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	host, port, err := splitPort(authority)
	if err != nil {
		return Address{}, err
	}
	if strings.Contains(host, ":") && !strings.HasPrefix(authority, "[") {
		return Address{}, fmt.Errorf("must have an IPv6 address in brackets; write %s://[2001:db8::9], or a DNS name as host", a.Scheme)
	}
	if a.Host, err = canonicalHost(host); err != nil {
		return Address{}, err
	}
	if a.Port, err = a.Scheme.port(port); err != nil {
		return Address{}, err
	}
	a.System, err = a.Scheme.system(path)
	if err != nil {
		return Address{}, err
	}
	return a, nil
}

// parseBare parses host, host:port, IPv6, [IPv6] and [IPv6]:port.
func parseBare(address string) (Address, error) {
	if strings.Contains(address, "/") {
		return Address{}, errors.New("must name its protocol where a path follows; write redfish://host" + systemsPath + "<id>")
	}
	if scheme, rest, colon := strings.Cut(address, ":"); colon && rest != "" && strings.Trim(rest, "0123456789") != "" && Scheme(strings.ToLower(scheme)).known() {
		return Address{}, fmt.Errorf("must have two slashes after %s:, as in %s://host", scheme, strings.ToLower(scheme))
	}
	host, port, err := splitPort(address)
	if err != nil {
		return Address{}, err
	}
	a := Address{}
	if a.Host, err = canonicalHost(host); err != nil {
		return Address{}, err
	}
	a.Port, err = Bare.port(port)
	if err != nil {
		return Address{}, err
	}
	return a, nil
}

// known reports whether the scheme is one of the package's forms.
func (s Scheme) known() bool {
	driver, vendor := strings.CutPrefix(string(s), VendorPrefix)
	return s == Redfish || s == RedfishHTTP || s == IPMI || vendor && driverPattern.MatchString(driver)
}

// check refuses an unknown scheme and suggests another.
func (s Scheme) check(rest string) error {
	switch {
	case s.known():
		return nil
	case s == "https":
		return fmt.Errorf("must begin with %s, not %s://; write redfish://, it speaks HTTPS", forms, s)
	case s == "http":
		return fmt.Errorf("must begin with %s, not %s://; write redfish+http:// if passwords may travel in clear, else redfish://", forms, s)
	case s.ofMetal3() != nil:
		return s.ofMetal3()
	case strings.HasPrefix(string(s), VendorPrefix):
		return errors.New("must name a driver after vendor+, in lower case letters, digits and -, such as vendor+dell://")
	case schemePattern.MatchString(string(s)):
		return fmt.Errorf("must begin with %s, not %s://", forms, s)
	}
	return errors.New("is no address of a BMC; write " + forms)
}

// splitPort splits host[:port], and removes the brackets of an IPv6 address.
func splitPort(authority string) (host, port string, _ error) {
	if inner, ok := strings.CutPrefix(authority, "["); ok {
		host, after, closed := strings.Cut(inner, "]")
		port, colon := strings.CutPrefix(after, ":")
		switch {
		case !closed, after != "" && !colon:
			return "", "", errors.New("must close the brackets around an IPv6 address, with nothing but a port after them; write [2001:db8::9]:443")
		case !strings.Contains(host, ":"):
			return "", "", fmt.Errorf("must have an IPv6 address in the brackets, not %q; write other hosts without brackets", host)
		}
		return host, port, nil
	}
	if strings.Count(authority, ":") == 1 {
		host, port, _ = strings.Cut(authority, ":")
		return host, port, nil
	}
	return authority, "", nil
}

// port parses a port. The scheme's default is 0.
func (s Scheme) port(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	own, others := ownPorts(s), ""
	if len(own) == 1 {
		others = fmt.Sprintf("; leave it out for %d", own[0])
	}
	for _, r := range text {
		if r < '0' || r > '9' { // the error omits the text, which may be a password
			return 0, fmt.Errorf("must have a port of 1 to 65535 in digits after the last colon%s", others)
		}
	}
	port, err := strconv.Atoi(text)
	switch {
	case err != nil || port < 1 || port > 65535:
		return 0, fmt.Errorf("must have a port of 1 to 65535, not %s%s", text, others)
	case len(own) == 1 && port == own[0]:
		return 0, nil
	}
	return port, nil
}

// system parses the path of a System. Errors do not repeat it.
func (s Scheme) system(path string) (string, error) {
	if strings.Trim(path, "/") == "" {
		return "", nil
	}
	if (s == Redfish || s == RedfishHTTP) && strings.TrimRight(path, "/") == serviceRoot {
		return "", nil // every service has it
	}
	if s != Redfish && s != RedfishHTTP {
		return "", fmt.Errorf("must not have a path with %s://, by which a BMC has one system; remove the path, or write redfish://", s)
	}
	wrong := fmt.Errorf("must name a system as %s<id>; correct the path, or leave it out where the BMC has one system", systemsPath)
	u, err := url.Parse("redfish://host" + path)
	if err != nil {
		return "", wrong
	}
	system := strings.TrimRight(u.EscapedPath(), "/")
	id, ok := strings.CutPrefix(strings.TrimRight(u.Path, "/"), systemsPath)
	if !ok || !strings.HasPrefix(system, systemsPath) || id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/?#@") {
		return "", wrong
	}
	return system, nil
}

func canonicalHost(host string) (string, error) {
	if address, zone, ok := strings.Cut(host, "%"); ok && strings.Contains(address, ":") {
		return "", fmt.Errorf("must not name the zone %s, which means another thing on each machine; use a routed address", strings.TrimPrefix(zone, "25"))
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String(), nil
	}
	if strings.Contains(host, ":") {
		return "", fmt.Errorf("must have an IP address or a DNS name as host, not %q, which is no IPv6 address", host)
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	if len(name) > maxName || !namePattern.MatchString(name) || looksLikeIPv4(name) {
		return "", fmt.Errorf("must have an IP address or a DNS name as host, not %q", host)
	}
	return name, nil
}

// looksLikeIPv4 reports whether the last label of a name is a number. No such top-level domain
// exists (RFC 3696, section 2), so the name is a mistyped address.
func looksLikeIPv4(name string) bool {
	_, err := strconv.Atoi(name[strings.LastIndex(name, ".")+1:])
	return err == nil
}
