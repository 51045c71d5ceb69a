// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package segment

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/lab/netns"
)

// ErrNotAllowed reports that the process may not make network namespaces.
var ErrNotAllowed = errors.New("no right to make network namespaces")

// Room is a network namespace. It lives until Close, and as long as anything runs
// in it.
type Room struct{ file *os.File }

// NewRoom makes an empty one, with its loopback interface up. Without the right
// to, the error wraps ErrNotAllowed.
func NewRoom() (*Room, error) {
	type result struct {
		room *Room
		err  error
	}
	done := make(chan result)
	go func() {
		// Never unlocked: the thread is of the new namespace and ends here.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- result{err: errors.Join(ErrNotAllowed, os.NewSyscallError("unshare", err))}
			return
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			done <- result{err: fmt.Errorf("keep a network namespace: %w", err)}
			return
		}
		done <- result{room: &Room{file: file}}
	}()
	made := <-done
	if made.err != nil {
		return nil, made.err
	}
	err := made.room.Do(func() error { return up("lo") })
	if err != nil {
		return nil, errors.Join(err, made.room.Close())
	}
	return made.room, nil
}

// path names the namespace for this process.
func (r *Room) path() string { return fmt.Sprintf("/proc/self/fd/%d", r.file.Fd()) }

// Do calls f on a thread in the room (see netns.Do): sockets that it opens stay
// there, goroutines that it starts do not.
func (r *Room) Do(f func() error) error { return netns.Do(r.path(), f) }

// Start starts a program in the room.
func (r *Room) Start(cmd *exec.Cmd) error { return r.Do(cmd.Start) }

// Route adds a route to dst by way of a router.
func (r *Room) Route(dst netip.Prefix, by netip.Addr) error {
	return r.Do(func() error {
		route := &netlink.Route{Dst: network(dst), Gw: by.AsSlice()}
		if err := netlink.RouteAdd(route); err != nil {
			return fmt.Errorf("add a route to %s: %w", dst, err)
		}
		return nil
	})
}

// Forward makes the room a router.
func (r *Room) Forward() error {
	return r.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
}

// Close lets go of the room.
func (r *Room) Close() error { return r.file.Close() }

// Segment is an Ethernet: a bridge in a room of its own.
type Segment struct {
	room  *Room
	ports int
}

const bridge = "bridge"

// New makes a segment that nothing is joined to.
func New() (*Segment, error) {
	room, err := NewRoom()
	if err != nil {
		return nil, err
	}
	err = room.Do(func() error {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}); err != nil {
			return fmt.Errorf("make a bridge: %w", err)
		}
		return up(bridge)
	})
	if err != nil {
		return nil, errors.Join(err, room.Close())
	}
	return &Segment{room: room}, nil
}

// Close takes the segment away, with the interfaces of the rooms that joined it.
func (s *Segment) Close() error { return s.room.Close() }

// Port is how a room is on a segment.
type Port struct {
	// MAC of the interface; nil: the kernel makes one up.
	MAC net.HardwareAddr
	// Address with its prefix length; zero: none.
	Address netip.Prefix
}

// Join gives a room an interface on the segment.
func (s *Segment) Join(r *Room, name string, p Port) error {
	s.ports++
	here := fmt.Sprintf("port%d", s.ports)
	err := s.room.Do(func() error {
		master, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: here, MasterIndex: master.Attrs().Index}, PeerName: name,
			PeerNamespace: netlink.NsFd(int(r.file.Fd())), PeerHardwareAddr: p.MAC}
		if err := netlink.LinkAdd(veth); err != nil {
			return err
		}
		return up(here)
	})
	if err != nil {
		return fmt.Errorf("join %s to a segment: %w", name, err)
	}
	return r.Do(func() error {
		if err := up(name); err != nil {
			return err
		}
		if !p.Address.IsValid() {
			return nil
		}
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("look for %s: %w", name, err)
		}
		at := network(p.Address)
		at.IP = p.Address.Addr().AsSlice()
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: at}); err != nil {
			return fmt.Errorf("give %s the address %s: %w", name, p.Address, err)
		}
		return nil
	})
}

func network(p netip.Prefix) *net.IPNet {
	masked := p.Masked()
	return &net.IPNet{IP: masked.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), masked.Addr().BitLen())}
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("look for %s: %w", name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring %s up: %w", name, err)
	}
	return nil
}
