// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/lab/netns"
)

// tapFrame is the maximum frame size of a tap, in bytes: its MTU, the header, and a VLAN tag.
const tapFrame = 1500 + ethernetHeader + 4

// Tap is an interface to create in a network namespace.
type Tap struct {
	// NetNS is the path of the namespace, for example /proc/4711/ns/net.
	NetNS string
	// Interface is the name of the interface; it must not exist.
	Interface string
	// Address with its prefix length.
	Address netip.Prefix
}

// AttachTap creates an interface in a network namespace of this machine and connects it to the
// switch. Only this function of the package needs privileges (CAP_NET_ADMIN and CAP_SYS_ADMIN). The
// interface exists until the port or the switch is closed.
func (s *Switch) AttachTap(t Tap) (*Port, error) {
	var device *os.File
	err := netns.Do(t.NetNS, func() (err error) {
		device, err = t.open()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("attach interface %s: %w", t.Interface, err)
	}
	port, err := s.Plug(t.Interface, func(frame []byte) {
		// A device that is down refuses frames, like a cable without a link. The reader detects a
		// closed device.
		_, _ = device.Write(frame)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach interface %s: %w", t.Interface, err), device.Close())
	}
	go func() {
		<-port.done
		device.Close() // ends the reader and removes the interface
	}()
	go port.readTap(device)
	return port, nil
}

// open creates the interface in the namespace of the calling thread and sets it up.
func (t Tap) open() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	device, err := t.configure(fd)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return device, nil
}

func (t Tap) configure(fd int) (*os.File, error) {
	request, err := unix.NewIfreq(t.Interface)
	if err != nil {
		return nil, err
	}
	// Plain Ethernet frames, one per read or write (Linux tuntap.rst).
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, fmt.Errorf("create the interface: %w", err)
	}
	link, err := netlink.LinkByName(t.Interface)
	if err != nil {
		return nil, err
	}
	address := t.Address.Addr()
	network := &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(t.Address.Bits(), address.BitLen())}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: network}); err != nil {
		return nil, fmt.Errorf("add address %s: %w", t.Address, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("set the interface up: %w", err)
	}
	// os.NewFile needs the existing interface: only then can the runtime poll the descriptor, and
	// Close end a read.
	return os.NewFile(uintptr(fd), "tap "+t.Interface), nil
}

// Down sets the interface down, which simulates a cable without a link. The switch keeps the port.
func (t Tap) Down() error { return t.setLink("down", netlink.LinkSetDown) }

// Up reverts Down.
func (t Tap) Up() error { return t.setLink("up", netlink.LinkSetUp) }

func (t Tap) setLink(state string, set func(netlink.Link) error) error {
	err := netns.Do(t.NetNS, func() error {
		link, err := netlink.LinkByName(t.Interface)
		if err != nil {
			return err
		}
		return set(link)
	})
	if err != nil {
		return fmt.Errorf("set interface %s %s: %w", t.Interface, state, err)
	}
	return nil
}

// readTap forwards frames of the interface until the device is closed.
func (p *Port) readTap(device *os.File) {
	defer p.Close()
	buffer := make([]byte, tapFrame)
	for {
		n, err := device.Read(buffer)
		if err != nil {
			return
		}
		p.Send(append([]byte(nil), buffer[:n]...)) // the switch keeps the slice
	}
}
