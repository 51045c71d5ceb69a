// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc"
)

// NIC is the server's network interface with the network stack of the operating system, such as
// *network.Stack.
type NIC interface {
	MAC() net.HardwareAddr
	// ListenUnconfigured opens a UDP socket that sends from 0.0.0.0 and receives broadcasts.
	// ListenUDP opens one with the interface's address; port 0: any.
	ListenUnconfigured(port uint16) (net.PacketConn, error)
	ListenUDP(port uint16) (net.PacketConn, error)
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	// SetAddress replaces address and default route; zero values remove them.
	SetAddress(address netip.Prefix, gateway netip.Addr) error
	// SetIPv6 replaces all IPv6 addresses except the link-local one. ListenUDPIPv6 opens a UDP
	// socket with those addresses; port 0: any.
	SetIPv6(address netip.Prefix) error
	ListenUDPIPv6(port uint16, groups ...netip.Addr) (net.PacketConn, error)
}

// Device is a boot device.
type Device string

const (
	Network   Device = "Network"
	LocalDisk Device = "Disk"
)

// Config describes a server. Each duration states its default for 0.
type Config struct {
	Name string
	// NIC is the only network interface. Required. The caller closes it after the server.
	NIC NIC
	// Disks of the server; the firmware boots the first one.
	Disks []DiskConfig
	// UUID, Serial, Manufacturer and Model are SMBIOS values.
	UUID, Serial, Manufacturer, Model string
	// Cores and MemoryBytes of the inventory; default 4 and 8 GiB.
	Cores       int32
	MemoryBytes int64
	// BootOrder applies without an override of the BMC; default network, then disk.
	BootOrder []Device
	// PlainPXE makes the firmware a PXE ROM that loads iPXE with TFTP. Otherwise its ROM is
	// iPXE, like QEMU's.
	PlainPXE bool
	// IPv6 makes firmware, agent and system use only IPv6, with the address from DHCPv6 and a
	// /64 prefix.
	IPv6 bool
	// HeadOnly requests kernel and initramfs without reading them, for tests with many servers.
	HeadOnly bool
	// POST is the time before the firmware boots, and BootTime the start time of a kernel; 10 ms
	// each.
	POST, BootTime time.Duration
	// ShutdownTime is how long the installed system takes to stop; 10 ms. IgnoreShutdown makes it
	// ignore the power button, as the agent always does.
	ShutdownTime   time.Duration
	IgnoreShutdown bool
	// Retry is the pause between attempts of the boot order, of the agent's calls, and of the
	// installed system; 500 ms.
	Retry time.Duration
	// CallTimeout bounds one call of the agent to the manager; default 30 s, the agent's own.
	CallTimeout time.Duration
	// DHCPTimeout is the wait before a DHCP request is repeated; 2 s.
	DHCPTimeout time.Duration
	// System simulates the installed operating system beyond Ingot's own first boot. It is called
	// on each boot from a disk with a seed, after the system has an address. It runs until ctx ends
	// with power-off, shutdown or reset, and delays the power-off until it returns. May be nil.
	System func(ctx context.Context, os System)
	// Live is called when a live system has an address, before it fetches its data. The command
	// line holds a secret. May be nil.
	Live func(ctx context.Context, commandLine string)
	// Pace is called at each step and may block until ctx ends: tests use it to slow the server
	// down or to stop it. May be nil.
	Pace func(ctx context.Context, step Step)
	// Console receives each event in order; it must not call the server. May be nil.
	Console func(Event)
}

// Step is the next action of the server. All but StepBoot are actions of the agent.
type Step string

const (
	// StepProbe: read the hardware.
	StepProbe Step = "Probe"
	// StepWrite: write or zero a part of a disk.
	StepWrite Step = "Write"
	// StepSeed: write the seed of the installed system.
	StepSeed Step = "Seed"
	// StepReport: report an install that has just become complete on its disk.
	StepReport Step = "Report"
	// StepBoot: start the operating system from its disk.
	StepBoot Step = "Boot"
)

// Event is something that happened on the server. It holds no secret.
type Event struct {
	At     time.Time
	Server string
	Kind   EventKind
	Detail string
}

// EventKind is the kind of an Event.
type EventKind string

// The events in their usual order.
const (
	EventPowerOn   EventKind = "PowerOn"
	EventPowerOff  EventKind = "PowerOff"
	EventPOST      EventKind = "POST"
	EventBootFrom  EventKind = "BootFrom"
	EventDHCP      EventKind = "DHCP"
	EventLoader    EventKind = "Loader"
	EventScript    EventKind = "Script"
	EventKernel    EventKind = "Kernel"
	EventAgent     EventKind = "Agent"
	EventAgentDone EventKind = "AgentDone"
	// EventLive is an event of a live system that installs itself.
	EventLive   EventKind = "Live"
	EventSystem EventKind = "System"
	// EventShutdownIgnored is a press of the power button that the system ignores.
	EventShutdownIgnored EventKind = "Deaf"
	EventBooted          EventKind = "Booted"
	EventScrubbed        EventKind = "Scrubbed"
	// EventUserData is an event of Config.System (System.Event).
	EventUserData EventKind = "UserData"
	EventFailed   EventKind = "Failed"
)

// Server is a simulated server. It implements lab/bmc.Machine and is safe for concurrent use.
type Server struct {
	bmc.BootSetting

	cfg   Config
	disks []*Disk

	mu     sync.Mutex
	events []Event
	// uptime is nil while the power is off.
	uptime *uptime
}

// uptime is the time from power-on to power-off or reset.
type uptime struct {
	cancel context.CancelFunc
	done   chan struct{}
	// button receives Shutdown and Reboot, which the running software may ignore.
	button chan bmc.Action
}

// New returns a server that is off. It creates missing disk files. Close powers it off.
func New(cfg Config) (*Server, error) {
	if cfg.NIC == nil {
		return nil, errors.New("simulated server: NIC is required")
	}
	if len(cfg.BootOrder) == 0 {
		cfg.BootOrder = []Device{Network, LocalDisk}
	}
	const short = 10 * time.Millisecond
	cfg.POST, cfg.BootTime = cmp.Or(cfg.POST, short), cmp.Or(cfg.BootTime, short)
	cfg.ShutdownTime, cfg.Retry = cmp.Or(cfg.ShutdownTime, short), cmp.Or(cfg.Retry, 500*time.Millisecond)
	cfg.DHCPTimeout = cmp.Or(cfg.DHCPTimeout, 2*time.Second)
	cfg.Cores, cfg.MemoryBytes = cmp.Or(cfg.Cores, 4), cmp.Or(cfg.MemoryBytes, 8<<30)
	s := &Server{cfg: cfg}
	for i, dc := range cfg.Disks {
		d, err := newDisk(i, dc)
		if err != nil {
			return nil, fmt.Errorf("simulated server %s: %w", cfg.Name, err)
		}
		s.disks = append(s.disks, d)
	}
	return s, nil
}

// Disks returns the server's disks in the order of the configuration.
func (s *Server) Disks() []*Disk { return s.disks }

// Events returns the events so far, oldest first.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.events...)
}

// Close cuts the power.
func (s *Server) Close() error { return s.Power(context.Background(), bmc.Off) }

// Powered implements lab/bmc.Machine.
func (s *Server) Powered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uptime != nil
}

// Power implements lab/bmc.Machine. After Off has returned, the server sends no packet and writes
// no byte.
func (s *Server) Power(_ context.Context, action bmc.Action) error {
	switch action {
	case bmc.On:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.uptime == nil {
			s.start("")
		}
	case bmc.Off:
		s.cutPower("power cut")
	case bmc.Reset:
		if s.cutPower("reset") {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.uptime == nil {
				s.start("after a reset")
			}
		}
	case bmc.Shutdown, bmc.Reboot:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.uptime != nil {
			select {
			case s.uptime.button <- action:
			default: // pressed already
			}
		}
	default:
		return fmt.Errorf("simulated server %s: unknown power action %q", s.cfg.Name, action)
	}
	return nil
}

// start powers the server on. The lock is held.
func (s *Server) start(why string) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &uptime{cancel: cancel, done: make(chan struct{}), button: make(chan bmc.Action, 1)}
	s.uptime = l
	s.eventLocked(EventPowerOn, why)
	go func() {
		defer close(l.done)
		defer cancel()
		s.bootLoop(ctx, l)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.uptime == l {
			s.uptime = nil
			s.eventLocked(EventPowerOff, "by the system")
		}
	}()
}

// cutPower powers the server off, waits for the end of all activity, and reports whether the
// server was on.
func (s *Server) cutPower(why string) bool {
	s.mu.Lock()
	l := s.uptime
	s.uptime = nil
	if l != nil {
		s.eventLocked(EventPowerOff, why)
		l.cancel()
	}
	s.mu.Unlock()
	if l == nil {
		return false
	}
	<-l.done
	return true
}

func (s *Server) event(kind EventKind, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eventLocked(kind, fmt.Sprintf(format, args...))
}

func (s *Server) eventLocked(kind EventKind, detail string) {
	e := Event{At: time.Now(), Server: s.cfg.Name, Kind: kind, Detail: detail}
	s.events = append(s.events, e)
	if s.cfg.Console != nil {
		s.cfg.Console(e)
	}
}

// sleep returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
