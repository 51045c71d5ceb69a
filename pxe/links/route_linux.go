// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package links

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// routeSocket asks the kernel for the interfaces of the network namespace that
// it was opened in (rtnetlink), as net.Interfaces does for the thread's. One
// goroutine at a time may use it.
type routeSocket struct{ fd int }

// routeTimeout bounds the wait for the kernel's answer, which is immediate.
const routeTimeout = 1 // seconds

func openRouteSocket() (*routeSocket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: routeTimeout}); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("setsockopt SO_RCVTIMEO", err)
	}
	return &routeSocket{fd: fd}, nil
}

func (r *routeSocket) close() error { return os.NewSyscallError("close", unix.Close(r.fd)) }

// links are the interfaces, without their subnets.
func (r *routeSocket) links() ([]Link, error) {
	var out []Link
	err := r.dump(unix.RTM_GETLINK, func(m syscall.NetlinkMessage) {
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
			return
		}
		link := Link{Index: int(int32(binary.NativeEndian.Uint32(m.Data[4:])))}
		for _, a := range attributes(&m) {
			switch {
			case a.Attr.Type == unix.IFLA_IFNAME:
				link.Name = string(bytes.TrimRight(a.Value, "\x00"))
			case a.Attr.Type == unix.IFLA_ADDRESS && len(a.Value) == 6:
				link.Hardware = net.HardwareAddr(bytes.Clone(a.Value))
			}
		}
		out = append(out, link)
	})
	return out, err
}

// subnets are the subnets by the index of their interface, but for loopback and
// link-local ones. The own address of IPv6 stands in another attribute.
func (r *routeSocket) subnets() (map[int][]netip.Prefix, error) {
	out := map[int][]netip.Prefix{}
	err := r.dump(unix.RTM_GETADDR, func(m syscall.NetlinkMessage) {
		if m.Header.Type != unix.RTM_NEWADDR || len(m.Data) < unix.SizeofIfAddrmsg {
			return
		}
		index := int(binary.NativeEndian.Uint32(m.Data[4:]))
		for _, a := range attributes(&m) {
			address, ok := netip.AddrFromSlice(a.Value)
			own := a.Attr.Type == unix.IFA_LOCAL || (m.Data[0] == unix.AF_INET6 && a.Attr.Type == unix.IFA_ADDRESS)
			if own && ok && !address.IsLoopback() && !address.IsLinkLocalUnicast() {
				out[index] = append(out[index], netip.PrefixFrom(address, int(m.Data[1])).Masked())
			}
		}
	})
	return out, err
}

func attributes(m *syscall.NetlinkMessage) []syscall.NetlinkRouteAttr {
	list, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return nil
	}
	return list
}

// dump asks for all there is of a kind (RFC 3549 §2.3.2).
func (r *routeSocket) dump(kind uint16, each func(syscall.NetlinkMessage)) error {
	const length = unix.SizeofNlMsghdr + 4 // the family, AF_UNSPEC, padded
	request := make([]byte, length)
	binary.NativeEndian.PutUint32(request[0:], length)
	binary.NativeEndian.PutUint16(request[4:], kind)
	binary.NativeEndian.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	if err := unix.Sendto(r.fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask for the interfaces: %w", err)
	}
	buf := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(r.fd, buf, 0)
		if err != nil {
			return fmt.Errorf("read the interfaces: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return fmt.Errorf("read the interfaces: %w", err)
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return nil
			case unix.NLMSG_ERROR:
				return fmt.Errorf("the kernel does not list the interfaces")
			}
			each(m)
		}
	}
}
