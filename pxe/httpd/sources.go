// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
)

// ErrSourceNotAllowed is returned for an image URL, redirect or address that the operator does
// not allow.
var ErrSourceNotAllowed = errors.New("image source is not allowed (--image-sources of the boot server)")

// Sources are the patterns that images may be fetched from. The author of a Machine chooses the
// image URL, which without limits would allow scans of the boot server's networks.
//
// The zero value allows every public address and no private one. With entries, only what they
// name is allowed.
type Sources struct {
	networks []netip.Prefix
	patterns []pattern
}

// pattern is a host, or a part of its content.
type pattern struct {
	// scheme is empty for both. port is empty for any port, and set if scheme is.
	scheme, port string
	// host is a lower-case name, an address, or a suffix that starts with a dot.
	host string
	// path starts and ends with a slash, or is the path of one file.
	path string
}

// ParseSources parses entries of these forms:
//
//	192.0.2.0/24, 192.0.2.7          everything that resolves to these addresses
//	images.example.com[:8080]        a host, by http and https
//	*.example.com                    all hosts below a domain
//	https://images.example.com/os/   everything below a URL
//
// A named host may have private addresses (RFC 1918, RFC 4193, RFC 6598). Loopback and
// link-local addresses, such as metadata services, must be named as addresses.
func ParseSources(entries []string) (Sources, error) {
	var s Sources
	for _, entry := range entries {
		if prefix, ok := parseNetwork(entry); ok {
			s.networks = append(s.networks, prefix)
			continue
		}
		p, err := parsePattern(entry)
		if err != nil {
			return Sources{}, fmt.Errorf("image source %q: %w", entry, err)
		}
		s.patterns = append(s.patterns, p)
	}
	return s, nil
}

func parseNetwork(entry string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), true
	}
	p, err := netip.ParsePrefix(entry)
	return p.Masked(), err == nil
}

func parsePattern(entry string) (pattern, error) {
	scheme, rest, isURL := strings.Cut(entry, "://")
	if !isURL {
		scheme, rest = "", entry
	}
	u, err := url.Parse("http://" + rest)
	switch {
	case err != nil:
		return pattern{}, errors.New("want an address, a network, a host or an http(s) URL")
	case isURL && scheme != "http" && scheme != "https":
		return pattern{}, errors.New("scheme must be http or https")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return pattern{}, errors.New("user, query and fragment are not allowed")
	case !isURL && u.Path != "":
		return pattern{}, errors.New("a path needs a scheme before the host")
	case u.Path != "" && hasDots(u.Path):
		return pattern{}, errors.New("a path must not contain . or ..")
	}
	p := pattern{scheme: scheme, host: hostOf(u), port: u.Port(), path: u.Path}
	if suffix, ok := strings.CutPrefix(p.host, "*."); ok {
		p.host = "." + suffix
	}
	if p.host == "" || strings.Contains(p.host, "*") || strings.Trim(p.host, ".") == "" {
		return pattern{}, errors.New("want a host name, or *. and a domain")
	}
	if scheme != "" && p.port == "" {
		p.port = defaultPort(scheme)
	}
	return p, nil
}

type permission int

const (
	refused   permission = iota // must not be fetched
	byAddress                   // depends on the address of its host
	byName                      // named by the operator
)

func (s Sources) url(u *url.URL) permission {
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return refused
	}
	if slices.ContainsFunc(s.patterns, func(p pattern) bool { return p.matches(u) }) {
		return byName
	}
	if len(s.patterns) == 0 || len(s.networks) > 0 {
		return byAddress
	}
	return refused
}

func (p pattern) matches(u *url.URL) bool {
	port := u.Port()
	if port == "" {
		port = defaultPort(u.Scheme)
	}
	host := hostOf(u)
	switch {
	case p.scheme != "" && p.scheme != u.Scheme, p.port != "" && p.port != port:
		return false
	case host != p.host && (!strings.HasPrefix(p.host, ".") || !strings.HasSuffix(host, p.host)):
		return false
	case p.path == "" || p.path == "/":
		return true
	case hasDots(u.Path):
		return false
	}
	return u.Path == p.path || strings.HasPrefix(u.Path, strings.TrimSuffix(p.path, "/")+"/")
}

// address reports whether an address may be connected to, for a URL with this permission.
func (s Sources) address(a netip.Addr, name string, p permission) bool {
	a = a.Unmap().WithZone("")
	if slices.ContainsFunc(s.networks, func(n netip.Prefix) bool { return n.Contains(a) && (n.Bits() >= minBits || kindOf(a) != special) }) {
		return true
	}
	switch p {
	case byName:
		if literal, err := netip.ParseAddr(name); err == nil && literal.Unmap() == a {
			return true // the operator named this address
		}
		return kindOf(a) != special
	case byAddress:
		return len(s.networks) == 0 && kindOf(a) == public
	}
	return false
}

// minBits is the shortest prefix that may allow special addresses. An operator who writes
// 0.0.0.0/0 or ::/0 means the Internet.
const minBits = 8

type addressKind int

const (
	public  addressKind = iota
	private             // in a private network
	special             // of this machine, of the link, or reserved
)

var (
	specialNetworks = prefixes("0.0.0.0/8", "240.0.0.0/4")
	privateNetworks = prefixes("100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "fec0::/10")
	nat64           = netip.MustParsePrefix("64:ff9b::/96")
	nat64RF         = netip.MustParsePrefix("64:ff9b:1::/48")
	sixTo4          = netip.MustParsePrefix("2002::/16")
)

func kindOf(a netip.Addr) addressKind {
	in := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return kindOf(netip.AddrFrom4([4]byte(b[12:])))
	case sixTo4.Contains(a):
		return kindOf(netip.AddrFrom4([4]byte(b[2:6])))
	case a.IsLoopback(), a.IsLinkLocalUnicast(), a.IsUnspecified(), a.IsMulticast(), in(specialNetworks):
		return special
	case a.IsPrivate(), nat64RF.Contains(a), in(privateNetworks):
		return private
	}
	return public
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}

// hostOf returns a URL's host in lower case and without a trailing dot.
func hostOf(u *url.URL) string {
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// hasDots reports whether a path is ambiguous: it has dot segments, backslashes or duplicate
// slashes.
func hasDots(p string) bool {
	return strings.Contains(p, `\`) || slices.ContainsFunc(strings.Split(p, "/"), func(e string) bool { return e == "." || e == ".." }) ||
		strings.TrimSuffix(path.Clean(p), "/") != strings.TrimSuffix(p, "/")
}

// hostPort returns the address in a dialer's host:port.
func hostPort(address string) (netip.Addr, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return netip.Addr{}, err
	}
	return netip.ParseAddr(host)
}
