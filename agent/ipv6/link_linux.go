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
	// poll is the interval of kernel queries.
	poll = 50 * time.Millisecond
	// localWait bounds the wait for duplicate address detection: one second after a random
	// delay of at most another (RFC 4862 section 5.4).
	localWait = 10 * time.Second
	// routerWait bounds the wait for a router advertisement. A router answers within half a
	// second, or three seconds after its answer to another host (RFC 4861 section 6.2.6).
	routerWait = 6 * time.Second
)

// errDuplicate reports that another machine has the address.
var errDuplicate = errors.New("another machine has the address")

// router is the state announced by routers.
type router struct {
	// present: there is a router. managed: addresses come from DHCPv6.
	present, managed bool
}

// The kernel's flags of an interface (include/net/if_inet6.h), and their attribute in netlink
// (include/uapi/linux/if_link.h).
const (
	flagReceived = 0x20
	flagManaged  = 0x40
	flagOther    = 0x80
	inet6Flags   = 1
	typeMask     = 0x3fff
)

// routerOf returns what routers have announced on an interface.
func routerOf(index int) (router, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_INET6))
	messages, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return router{}, fmt.Errorf("query router advertisements: %w", err)
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
		return router{present: flags&(flagReceived|flagManaged|flagOther) != 0, managed: flags&flagManaged != 0}, nil
	}
	return router{}, nil
}

// attribute returns the value of an attribute; nil: not present.
func attribute(in []byte, kind uint16) ([]byte, error) {
	list, err := nl.ParseRouteAttr(in)
	if err != nil {
		return nil, fmt.Errorf("parse the attributes of an interface: %w", err)
	}
	for _, a := range list {
		if a.Attr.Type&typeMask == kind {
			return a.Value, nil
		}
	}
	return nil, nil
}

// awaitRouter waits for a router advertisement, at most for routerWait.
func awaitRouter(ctx context.Context, link netlink.Link) (found router, err error) {
	err = wait.Poll{Every: poll, Limit: routerWait}.Until(ctx, func() (bool, error) {
		found, err = routerOf(link.Attrs().Index)
		return found.present, err
	})
	if errors.Is(err, wait.ErrLimit) {
		return found, nil
	}
	return found, err
}

// awaitAddress waits for an address that suits and that duplicate address detection has
// confirmed.
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

// use sets a leased address and waits until it is usable. It removes other global addresses:
// the manager identifies the agent by this one, and the kernel might select another source
// address.
func use(ctx context.Context, link netlink.Link, address netip.Addr, bits int) error {
	name := link.Attrs().Name
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/autoconf", []byte("0"), 0o644); err != nil {
		return fmt.Errorf("disable autoconfiguration on %s: %w", name, err)
	}
	list, err := netlink.AddrList(link, netlink.FAMILY_V6)
	if err != nil {
		return fmt.Errorf("list the addresses of %s: %w", name, err)
	}
	for _, a := range list {
		if other, _ := netip.AddrFromSlice(a.IP); other != address && isGlobal(other) {
			if err := netlink.AddrDel(link, &a); err != nil {
				return fmt.Errorf("remove address %s: %w", other, err)
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

// IgnoreRouterAdvertisements makes an interface that is still down ignore router advertisements. Otherwise the
// agent might use an address there, while the manager identifies it by that of the boot NIC.
// A kernel without IPv6 is no error.
func IgnoreRouterAdvertisements(name string) error {
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_ra", []byte("0"), 0o644)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("disable router advertisements on %s: %w", name, err)
	}
	return nil
}

// remove removes a leased address and enables autoconfiguration again.
func remove(link netlink.Link, address netip.Addr, bits int) error {
	name := link.Attrs().Name
	err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/autoconf", []byte("1"), 0o644)
	if delErr := netlink.AddrDel(link, entry(address, bits)); delErr != nil {
		err = errors.Join(err, fmt.Errorf("remove address %s: %w", address, delErr))
	}
	return err
}

func entry(address netip.Addr, bits int) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(bits, 128)}}
}

func isGlobal(a netip.Addr) bool { return a.Is6() && a.IsGlobalUnicast() }

func isLocal(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }
