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

// ErrSourceNotAllowed reports a BMC at an address that Sources do not allow. Nothing was
// sent. The error is an ErrAddress too.
var ErrSourceNotAllowed = errors.New("BMC address is not allowed")

// maxHostShown bounds, in bytes, the host that an error names.
const maxHostShown = 60

// SourceError is an ErrSourceNotAllowed that names the host, as the address of the BMC
// has it. It does not name the IP address behind a DNS name: the author of an IngotHost
// may not know what names mean inside the management network.
type SourceError struct{ Host string }

// Error implements error.
func (e *SourceError) Error() string {
	return fmt.Sprintf("--bmc-sources does not allow spec.bmc.address: %q", Shorten(e.Host, maxHostShown))
}

// Is makes errors.Is true for ErrSourceNotAllowed and ErrAddress.
func (e *SourceError) Is(target error) bool {
	return target == ErrSourceNotAllowed || target == ErrAddress
}

// Sources are the IP addresses at which BMCs may be spoken to. The author of an IngotHost
// chooses an address that the manager then connects to; without bounds the manager would
// send that author's requests to every server inside the management cluster.
//
// The zero value allows all addresses except those of special networks: loopback,
// link-local, unspecified, multicast and reserved.
type Sources struct {
	allowed, excluded []netip.Prefix
}

// ParseSources reads networks and IP addresses, such as 10.20.0.0/16 and 2001:db8::9. An
// entry that begins with "!" excludes its addresses. With entries that do not, only their
// addresses are allowed.
//
// An excluded or special network stays excluded from a larger entry; an entry that is
// inside of it, or equal to it, allows its own addresses. So 0.0.0.0/0 leaves loopback
// out, and 127.0.0.0/8 allows it.
func ParseSources(entries []string) (Sources, error) {
	var s Sources
	for _, entry := range entries {
		text, excludes := strings.CutPrefix(entry, "!")
		prefix, err := parsePrefix(text)
		switch {
		case err != nil:
			return Sources{}, fmt.Errorf("%q is neither an IP address nor a network; write 10.20.0.0/16 or 10.20.0.7, with ! before it to exclude it", entry)
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

// Excluding returns sources that exclude further networks.
func (s Sources) Excluding(networks ...netip.Prefix) Sources {
	s.excluded = append(slices.Clone(s.excluded), networks...)
	return s
}

// specialNetworks are this machine's, this link's, or no host's (RFC 6890). ::/96 holds the
// unspecified address, loopback and the deprecated IPv4-compatible addresses.
var specialNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// NAT64 (RFC 6052) and 6to4 (RFC 3056) addresses carry an IPv4 address.
var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

// Allows reports whether BMCs may be spoken to at an address.
func (s Sources) Allows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if carried, ok := carriedIPv4(a); ok && s.excludes(carried) {
		return slices.ContainsFunc(s.allowed, func(p netip.Prefix) bool { return p.Contains(a) && p.Bits() >= nat64.Bits() })
	}
	if s.excludes(a) {
		return false
	}
	return len(s.allowed) == 0 || slices.ContainsFunc(s.allowed, func(p netip.Prefix) bool { return p.Contains(a) })
}

// excludes reports whether an excluded or special network holds the address, and no
// entry inside of that network allows it.
func (s Sources) excludes(a netip.Addr) bool {
	exempt := func(network netip.Prefix) bool {
		return slices.ContainsFunc(s.allowed, func(p netip.Prefix) bool {
			return p.Contains(a) && p.Bits() >= network.Bits()
		})
	}
	holds := func(network netip.Prefix) bool { return network.Contains(a) && !exempt(network) }
	return slices.ContainsFunc(specialNetworks, holds) || slices.ContainsFunc(s.excluded, holds)
}

func carriedIPv4(a netip.Addr) (netip.Addr, bool) {
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixTo4.Contains(a):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}

// Check refuses a host that is an IP address which is not allowed, with a SourceError. It
// does not look up names: those are checked when a connection to them is opened.
func (s Sources) Check(host string) error {
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && !s.Allows(a) {
		return &SourceError{Host: host}
	}
	return nil
}

// DialContext opens a connection to the target's BMC, for drivers: every connection and
// every UDP socket of theirs comes from here. Each IP address is checked when it is
// connected to, so that a name which means another address than before passes no check
// by that (DNS rebinding). Errors of Target.Connecting are wrapped.
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
