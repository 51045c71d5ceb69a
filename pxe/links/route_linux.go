// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package links

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeSocket lists the interfaces of the network namespace in which it was opened.
type routeSocket struct{ *netlink.Handle }

// routeTimeout limits the wait for the kernel, which normally answers at once.
const routeTimeout = time.Second

func openRouteSocket() (*routeSocket, error) {
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	if err := handle.SetSocketTimeout(routeTimeout); err != nil {
		handle.Close()
		return nil, err
	}
	return &routeSocket{handle}, nil
}

func (r *routeSocket) links() ([]Link, error) {
	list, err := r.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) { // an interrupted list is good enough
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	var out []Link
	for _, l := range list {
		link := Link{Index: l.Attrs().Index, Name: l.Attrs().Name}
		if hardware := l.Attrs().HardwareAddr; len(hardware) == 6 {
			link.Hardware = hardware
		}
		out = append(out, link)
	}
	return out, nil
}

// subnets returns the subnets by the index of their interface, except loopback and link-local ones.
func (r *routeSocket) subnets() (map[int][]netip.Prefix, error) {
	list, err := r.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	out := map[int][]netip.Prefix{}
	for _, a := range list {
		address, ok := netip.AddrFromSlice(a.IP)
		address = address.Unmap()
		if ones, _ := a.Mask.Size(); ok && !address.IsLoopback() && !address.IsLinkLocalUnicast() {
			out[a.LinkIndex] = append(out[a.LinkIndex], netip.PrefixFrom(address, ones).Masked())
		}
	}
	return out, nil
}
