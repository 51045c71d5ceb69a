// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// connectTimeout bounds how long a connection to a BMC may take to open.
const connectTimeout = 10 * time.Second

// ErrSourceNotAllowed reports a BMC at an address that Sources does not allow. Nothing was
// sent. It is also an ErrAddress.
var ErrSourceNotAllowed = errors.New("BMC address is not allowed")

// maxHostShown bounds, in bytes, the host that an error names.
const maxHostShown = 60

// SourceError is an ErrSourceNotAllowed that names the host as written in the BMC address.
// It does not name the IP address behind a DNS name, because the author of an IngotHost
// must not learn how names resolve in the management network.
type SourceError struct{ Host string }

func (e *SourceError) Error() string {
	return fmt.Sprintf("--bmc-sources does not allow spec.bmc.address: %q", Shorten(e.Host, maxHostShown))
}

// Is makes errors.Is true for ErrSourceNotAllowed and ErrAddress.
func (e *SourceError) Is(target error) bool {
	return target == ErrSourceNotAllowed || target == ErrAddress
}

// Sources are the IP addresses that the manager may connect to as BMCs. The author of an
// IngotHost chooses the address. Without bounds, the manager would send that author's
// requests to any server inside the management cluster.
//
// The zero value allows all addresses except those of special networks: loopback,
// link-local, unspecified, multicast and reserved.
type Sources struct {
	allowed, excluded []netip.Prefix
}

// ParseSources parses networks and IP addresses, such as 10.20.0.0/16 and 2001:db8::9. An
// entry that begins with "!" excludes its addresses. If there are other entries, only their
// addresses are allowed.
//
// A larger entry does not allow an excluded or special network inside of it. An entry that
// is inside of such a network, or equal to it, allows its own addresses: 0.0.0.0/0 does not
// allow loopback, and 127.0.0.0/8 does.
func ParseSources(entries []string) (Sources, error) {
	var s Sources
	for _, entry := range entries {
		text, excludes := strings.CutPrefix(entry, "!")
		prefix, err := parsePrefix(text)
		switch {
		case err != nil:
			return Sources{}, fmt.Errorf("%q is neither an IP address nor a network; write 10.20.0.0/16 or 10.20.0.7, with a leading ! to exclude it", entry)
		case excludes:
			s.excluded = append(s.excluded, prefix)
		default:
			s.allowed = append(s.allowed, prefix)
		}
	}
	return s, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err == nil && p.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("IPv4 in IPv6")
	}
	return p.Masked(), err
}

// Excluding returns sources that also exclude networks.
func (s Sources) Excluding(networks ...netip.Prefix) Sources {
	s.excluded = append(slices.Clone(s.excluded), networks...)
	return s
}

var (
	// specialNetworks are local to the machine or the link, or belong to no host (RFC 6890). ::/96
	// holds the unspecified address, loopback and the deprecated IPv4-compatible addresses.
	specialNetworks = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("240.0.0.0/4"),
		netip.MustParsePrefix("::/96"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
	}

	// NAT64 (RFC 6052) and 6to4 (RFC 3056) addresses embed an IPv4 address.
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

// Allows reports whether the manager may connect to a BMC at an address.
func (s Sources) Allows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if embedded, ok := embeddedIPv4(a); ok && s.excludes(embedded) {
		return slices.ContainsFunc(s.allowed, func(p netip.Prefix) bool { return p.Contains(a) && p.Bits() >= nat64.Bits() })
	}
	if s.excludes(a) {
		return false
	}
	return len(s.allowed) == 0 || slices.ContainsFunc(s.allowed, func(p netip.Prefix) bool { return p.Contains(a) })
}

// excludes reports whether an excluded or special network contains the address and no
// entry inside of that network allows it.
func (s Sources) excludes(a netip.Addr) bool {
	holds := func(network netip.Prefix) bool {
		return network.Contains(a) && !slices.ContainsFunc(s.allowed, func(p netip.Prefix) bool {
			return p.Contains(a) && p.Bits() >= network.Bits()
		})
	}
	return slices.ContainsFunc(specialNetworks, holds) || slices.ContainsFunc(s.excluded, holds)
}

func embeddedIPv4(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixTo4.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// Check returns a SourceError if the host is an IP address that is not allowed. It does not
// resolve names: those are checked when a connection is opened.
func (s Sources) Check(host string) error {
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && !s.Allows(a) {
		return &SourceError{Host: host}
	}
	return nil
}

// DialContext opens a connection to the target's BMC. Drivers open every connection and UDP
// socket with it. It checks each IP address when it connects, so that DNS rebinding cannot
// bypass the check. It wraps errors of Target.Connecting.
func (t Target) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: connectTimeout}
	if t.Connecting != nil {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("%w: want host:port", ErrAddress)
		}
		dialer.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(resolved)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrAddress, err)
			}
			return t.Connecting(host, netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port()))
		}
	}
	return dialer.DialContext(ctx, network, address)
}
