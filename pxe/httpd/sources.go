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

// ErrSourceNotAllowed reports an image URL, a redirect or an address behind a
// name from which the operator allows no fetching.
var ErrSourceNotAllowed = errors.New("image source is not allowed (--image-sources of the boot server)")

// Sources says where images may be fetched from. Whoever writes a Machine chooses
// an image URL; without bounds that would make the boot server a probe of the
// networks that it stands in.
//
// The zero value allows every public address, and no private one. With entries,
// nothing else is allowed than what they name.
type Sources struct {
	networks []netip.Prefix
	places   []place
}

// place is a host, or a part of what it serves.
type place struct {
	// scheme is empty for both; port is empty for any, with a scheme its default.
	scheme, port string
	// host is a name in lower case, an address, or a suffix that begins with a dot.
	host string
	// path begins and ends with a slash, or is that of one file.
	path string
}

// ParseSources reads entries of these forms:
//
//	192.0.2.0/24, 192.0.2.7       what resolves to these addresses
//	images.example.com[:8080]     a host, by http and https
//	*.example.com                 all hosts below a domain
//	https://images.example.com/os/   what lies below a URL
//
// A host that is named may have private addresses (RFC 1918, RFC 4193, RFC 6598).
// Loopback and link-local ones, where metadata services are, must be named as
// addresses.
func ParseSources(entries []string) (Sources, error) {
	var s Sources
	for _, entry := range entries {
		if prefix, ok := parseNetwork(entry); ok {
			s.networks = append(s.networks, prefix)
			continue
		}
		p, err := parsePlace(entry)
		if err != nil {
			return Sources{}, fmt.Errorf("image source %q: %w", entry, err)
		}
		s.places = append(s.places, p)
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

func parsePlace(entry string) (place, error) {
	scheme, rest, isURL := strings.Cut(entry, "://")
	if !isURL {
		scheme, rest = "", entry
	}
	u, err := url.Parse("http://" + rest)
	switch {
	case err != nil:
		return place{}, errors.New("want an address, a network, a host or an http(s) URL")
	case isURL && scheme != "http" && scheme != "https":
		return place{}, errors.New("only http and https can be fetched")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return place{}, errors.New("want no user, query or fragment")
	case !isURL && u.Path != "":
		return place{}, errors.New("a path needs a scheme before the host")
	case u.Path != "" && hasDots(u.Path):
		return place{}, errors.New("a path cannot hold . or ..")
	}
	p := place{scheme: scheme, host: hostOf(u), port: u.Port(), path: u.Path}
	if suffix, ok := strings.CutPrefix(p.host, "*."); ok {
		p.host = "." + suffix
	}
	if p.host == "" || strings.Contains(p.host, "*") || strings.Trim(p.host, ".") == "" {
		return place{}, errors.New("want a host name, or *. and a domain")
	}
	if scheme != "" && p.port == "" {
		p.port = defaultPort(scheme)
	}
	return p, nil
}

// permission is what the URL alone says.
type permission int

const (
	// refused: it must not be asked for.
	refused permission = iota
	// byAddress: it depends on the address behind its name.
	byAddress
	// byName: the operator named it.
	byName
)

// url says whether a URL may be asked for.
func (s Sources) url(u *url.URL) permission {
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return refused
	}
	if slices.ContainsFunc(s.places, func(p place) bool { return p.holds(u) }) {
		return byName
	}
	if len(s.places) == 0 || len(s.networks) > 0 {
		return byAddress
	}
	return refused
}

func (p place) holds(u *url.URL) bool {
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

// address says whether an address may be connected to, for a URL with this
// permission.
func (s Sources) address(a netip.Addr, name string, p permission) bool {
	a = a.Unmap().WithZone("")
	if slices.ContainsFunc(s.networks, func(n netip.Prefix) bool { return n.Contains(a) && (n.Bits() >= minBits || kindOf(a) != special) }) {
		return true
	}
	switch p {
	case byName:
		if literal, err := netip.ParseAddr(name); err == nil && literal.Unmap() == a {
			return true // the operator wrote this very address
		}
		return kindOf(a) != special
	case byAddress:
		return len(s.networks) == 0 && kindOf(a) == public
	}
	return false
}

// minBits is the length of the shortest prefix that may mean loopback or the
// link: who writes 0.0.0.0/0 or ::/0 thinks of the Internet.
const minBits = 8

type addressKind int

const (
	public addressKind = iota
	// private addresses are somebody's own network.
	private
	// special ones are this machine's, this link's or nobody's.
	special
)

var (
	specialNetworks = prefixes("0.0.0.0/8", "240.0.0.0/4")
	privateNetworks = prefixes("100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "fec0::/10")
	// translators carry an IPv4 address in their last, or second to fifth, bytes.
	nat64   = netip.MustParsePrefix("64:ff9b::/96")
	nat64RF = netip.MustParsePrefix("64:ff9b:1::/48")
	sixTo4  = netip.MustParsePrefix("2002::/16")
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

// hostOf is a URL's host in one form: lower case, without the dot of the root.
func hostOf(u *url.URL) string {
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// hasDots says whether a path means another one than it says.
func hasDots(p string) bool {
	return strings.Contains(p, `\`) || slices.ContainsFunc(strings.Split(p, "/"), func(e string) bool { return e == "." || e == ".." }) ||
		strings.TrimSuffix(path.Clean(p), "/") != strings.TrimSuffix(p, "/")
}

// hostPort splits an address that the kernel is to connect to.
func hostPort(address string) (netip.Addr, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return netip.Addr{}, err
	}
	return netip.ParseAddr(host)
}
