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

// tapFrame is the longest frame that a tap gives, in bytes: its MTU, the
// header, and a VLAN tag.
const tapFrame = 1500 + ethernetHeader + 4

// A Tap is an interface to be made in a network namespace.
type Tap struct {
	// NetNS is the path of the namespace, for example /proc/4711/ns/net.
	NetNS string
	// Interface is the name of the interface there; it must be free.
	Interface string
	// Address is its address and network.
	Address netip.Prefix
}

// AttachTap makes an interface in a network namespace of this machine and plugs
// it into the switch, so that what listens there is on the virtual Ethernet. It
// is the one thing here that needs privileges (CAP_NET_ADMIN and CAP_SYS_ADMIN).
// The interface lives until the port or the switch is closed.
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
		// A device that is down refuses frames, as a cable would lose them; one
		// that is closed is noticed by the reader.
		_, _ = device.Write(frame)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attach interface %s: %w", t.Interface, err), device.Close())
	}
	go func() {
		<-port.done
		device.Close() // ends the reader, and with the last descriptor the interface
	}()
	go port.readTap(device)
	return port, nil
}

// open makes the interface in the namespace of the calling thread and switches
// it on.
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
	// Plain Ethernet frames, one a read or write (tuntap.rst of Linux).
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_TUN_EXCL)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, fmt.Errorf("make the interface: %w", err)
	}
	link, err := netlink.LinkByName(t.Interface)
	if err != nil {
		return nil, err
	}
	address := t.Address.Addr()
	network := &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(t.Address.Bits(), address.BitLen())}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: network}); err != nil {
		return nil, fmt.Errorf("give it address %s: %w", t.Address, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("switch it on: %w", err)
	}
	// A file of package os, after the interface is there: only then the runtime
	// can wait for the descriptor, and Close can end a read.
	return os.NewFile(uintptr(fd), "tap "+t.Interface), nil
}

// Down switches the interface off, as if its cable were out: what listens there stays,
// and hears nothing. The switch keeps the port.
func (t Tap) Down() error { return t.setLink("down", netlink.LinkSetDown) }

// Up is the end of Down.
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

// readTap puts what the interface sends on the wire until the device is closed.
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
