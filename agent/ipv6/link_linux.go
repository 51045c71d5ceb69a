// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipv6

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/agent/wait"
)

const (
	// poll is how often the kernel is asked.
	poll = 50 * time.Millisecond
	// localWait bounds the wait for an address to be proven unique: one second, and as
	// long again at random before it (RFC 4862 section 5.4).
	localWait = 10 * time.Second
	// routerWait bounds the wait for an advertisement. A router answers within half a
	// second, or three after the answer to another (RFC 4861 section 6.2.6).
	routerWait = 6 * time.Second
)

// errDuplicate says that another machine has the address.
var errDuplicate = errors.New("another machine has the address")

// router is what routers said last.
type router struct {
	// heard: there is one. managed: addresses come by DHCPv6.
	heard, managed bool
}

// What the kernel keeps of an interface (include/net/if_inet6.h), and where netlink has
// it (include/uapi/linux/if_link.h).
const (
	flagReceived = 0x20
	flagManaged  = 0x40
	flagOther    = 0x80
	inet6Flags   = 1
	typeMask     = 0x3fff
)

// routerOf asks the kernel what it heard on an interface.
func routerOf(index int) (router, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_INET6))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return router{}, fmt.Errorf("ask the kernel for router advertisements: %w", err)
	}
	for _, message := range messages {
		info := nl.DeserializeIfInfomsg(message)
		if int(info.Index) != index {
			continue
		}
		value, err := attribute(message[info.Len():], unix.IFLA_PROTINFO)
		if err == nil {
			value, err = attribute(value, inet6Flags)
		}
		if err != nil || len(value) < 4 {
			return router{}, err
		}
		flags := binary.NativeEndian.Uint32(value)
		return router{heard: flags&(flagReceived|flagManaged|flagOther) != 0, managed: flags&flagManaged != 0}, nil
	}
	return router{}, nil
}

// attribute is the value of one; nil: it is not there.
func attribute(in []byte, kind uint16) ([]byte, error) {
	list, err := nl.ParseRouteAttr(in)
	if err != nil {
		return nil, fmt.Errorf("read what the kernel says of an interface: %w", err)
	}
	for _, a := range list {
		if a.Attr.Type&typeMask == kind {
			return a.Value, nil
		}
	}
	return nil, nil
}

// awaitRouter waits until a router was heard, or long enough.
func awaitRouter(ctx context.Context, link netlink.Link) (found router, err error) {
	err = wait.Poll{Every: poll, Limit: routerWait}.Until(ctx, func() (bool, error) {
		found, err = routerOf(link.Attrs().Index)
		return found.heard, err
	})
	if errors.Is(err, wait.ErrLimit) {
		return found, nil
	}
	return found, err
}

// awaitAddress waits for an address that can be used: one that suits, and is proven to
// be nobody else's.
func awaitAddress(ctx context.Context, link netlink.Link, suits func(netip.Addr) bool) (found netip.Addr, err error) {
	err = wait.Poll{Every: poll, Limit: localWait}.Until(ctx, func() (bool, error) {
		list, err := netlink.AddrList(link, netlink.FAMILY_V6)
		if err != nil {
			return false, fmt.Errorf("list the addresses of %s: %w", link.Attrs().Name, err)
		}
		for _, a := range list {
			address, _ := netip.AddrFromSlice(a.IP)
			if !suits(address) || a.Flags&unix.IFA_F_DEPRECATED != 0 {
				continue
			}
			if a.Flags&unix.IFA_F_DADFAILED != 0 {
				return false, fmt.Errorf("%w: %s", errDuplicate, address)
			}
			if a.Flags&unix.IFA_F_TENTATIVE == 0 {
				found = address
				return true, nil
			}
		}
		return false, nil
	})
	return found, err
}

// use puts a leased address on the interface and waits until it can be used. It is to be
// the only global one: the manager knows the agent by it, and of several the kernel might
// speak from another. Where no router tells what is on the link, a /64 is, as firmware
// takes it.
func use(ctx context.Context, link netlink.Link, address netip.Addr, bits int) error {
	name := link.Attrs().Name
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/autoconf", []byte("0"), 0o644); err != nil {
		return fmt.Errorf("keep %s from making addresses: %w", name, err)
	}
	list, err := netlink.AddrList(link, netlink.FAMILY_V6)
	if err != nil {
		return fmt.Errorf("list the addresses of %s: %w", name, err)
	}
	for _, a := range list {
		if other, _ := netip.AddrFromSlice(a.IP); other != address && isGlobal(other) {
			if err := netlink.AddrDel(link, &a); err != nil {
				return fmt.Errorf("take address %s off: %w", other, err)
			}
		}
	}
	if err := netlink.AddrReplace(link, entry(address, bits)); err != nil {
		return fmt.Errorf("set address %s: %w", address, err)
	}
	if _, err := awaitAddress(ctx, link, func(a netip.Addr) bool { return a == address }); err != nil {
		return errors.Join(fmt.Errorf("wait for address %s: %w", address, err), remove(link, address, bits))
	}
	return nil
}

// Ignore keeps an interface from what routers advertise, before it is brought up: the agent
// would have an address and a way out there, and might speak from another than its boot
// NIC's, by which the manager knows it. A kernel without IPv6 needs no telling.
func Ignore(name string) error {
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_ra", []byte("0"), 0o644)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("keep %s from router advertisements: %w", name, err)
	}
	return nil
}

// remove takes a leased address off again, and lets the kernel make its own.
func remove(link netlink.Link, address netip.Addr, bits int) error {
	name := link.Attrs().Name
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/autoconf", []byte("1"), 0o644)
	if delErr := netlink.AddrDel(link, entry(address, bits)); delErr != nil {
		err = errors.Join(err, fmt.Errorf("take address %s off: %w", address, delErr))
	}
	return err
}

func entry(address netip.Addr, bits int) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(bits, 128)}}
}

func isGlobal(a netip.Addr) bool { return a.Is6() && a.IsGlobalUnicast() }

func isLocal(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }
