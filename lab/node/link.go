// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/lab/netns"
)

const (
	// links bounds the nodes of one machine.
	links = 64
	// uplink is the node's interface.
	uplink = "eth0"
	// nameServer is the address of the name server for Services, on the node.
	nameServer = "10.96.0.10"
)

// link is the pair of interfaces between this machine and a node.
type link struct {
	name string       // of this machine's end, and of the node's control group
	host netip.Prefix // this machine's address
	node netip.Prefix // the node's address
}

// newLink connects the sandbox with the first free link.
func newLink(s *sandbox) (*link, error) {
	for i := range byte(links) {
		l := &link{
			name: fmt.Sprintf("ingot-node%d", i),
			host: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 250, i, 1}), 24),
			node: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 250, i, 2}), 24),
		}
		pair := netlink.NewVeth(netlink.LinkAttrs{Name: l.name})
		pair.PeerName, pair.PeerNamespace = uplink, netlink.NsPid(s.first)
		err := netlink.LinkAdd(pair)
		if errors.Is(err, unix.EEXIST) {
			continue // used by another node
		}
		if err != nil {
			return nil, fmt.Errorf("create link %s: %w", l.name, err)
		}
		if err := l.configure(s); err != nil {
			return nil, errors.Join(fmt.Errorf("configure link %s: %w", l.name, err), l.close())
		}
		return l, nil
	}
	return nil, fmt.Errorf("all links are in use, ingot-node0 to ingot-node%d", links-1)
}

func (l *link) configure(s *sandbox) error {
	if err := setUp(l.name, l.host); err != nil {
		return err
	}
	return netns.Do(s.namespace("net"), func() error {
		if err := setUp("lo", netip.PrefixFrom(netip.MustParseAddr(nameServer), 32)); err != nil {
			return err
		}
		if err := setUp(uplink, l.node); err != nil {
			return err
		}
		if err := netlink.RouteAdd(&netlink.Route{Gw: l.host.Addr().AsSlice()}); err != nil {
			return fmt.Errorf("default route: %w", err)
		}
		return nil
	})
}

// setUp adds an address to an interface, if there is one, and sets the interface up.
func setUp(name string, address netip.Prefix) error {
	device, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if address.IsValid() {
		ip := &netlink.Addr{IPNet: &net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), address.Addr().BitLen())}}
		if err := netlink.AddrAdd(device, ip); err != nil {
			return fmt.Errorf("address of interface %s: %w", name, err)
		}
	}
	if err := netlink.LinkSetUp(device); err != nil {
		return fmt.Errorf("set interface %s up: %w", name, err)
	}
	return nil
}

// close removes both ends. The kernel would remove them later with the namespace.
func (l *link) close() error {
	device, err := netlink.LinkByName(l.name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(device)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove link %s: %w", l.name, err)
	}
	return nil
}
