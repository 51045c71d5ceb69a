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

// NIC is the server's network interface and the operating system's network
// stack above it. *network.Stack is one.
type NIC interface {
	MAC() net.HardwareAddr
	// ListenUnconfigured opens a UDP socket that sends from 0.0.0.0 and receives
	// broadcasts; ListenUDP one (port 0: any) with the interface's address.
	ListenUnconfigured(port uint16) (net.PacketConn, error)
	ListenUDP(port uint16) (net.PacketConn, error)
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	// SetAddress replaces address and default route; zero values take them away.
	SetAddress(address netip.Prefix, gateway netip.Addr) error
	// SetIPv6 leaves of IPv6 addresses the link-local one and another; ListenUDPIPv6
	// opens a UDP socket (port 0: any) with those.
	SetIPv6(address netip.Prefix) error
	ListenUDPIPv6(port uint16, groups ...netip.Addr) (net.PacketConn, error)
}

// Device is something to boot from.
type Device string

// The devices.
const (
	Network   Device = "Network"
	LocalDisk Device = "Disk"
)

// Config describes a server. Durations that are 0 have the defaults they name.
type Config struct {
	// Name is for people.
	Name string
	// NIC is the only network interface. Required; the caller closes it after the
	// server.
	NIC NIC
	// Disks, of which the first is what the firmware boots.
	Disks []DiskConfig
	// UUID, Serial, Manufacturer and Model are what SMBIOS says.
	UUID, Serial, Manufacturer, Model string
	// Cores and MemoryBytes for the inventory; 4 and 8 GiB.
	Cores       int32
	MemoryBytes int64
	// BootOrder where the BMC overrides nothing; default network, then disk.
	BootOrder []Device
	// PlainPXE makes the firmware a PXE ROM that loads iPXE by TFTP; otherwise its
	// ROM is iPXE, as QEMU's is.
	PlainPXE bool
	// IPv6 makes firmware, agent and system speak IPv6 alone, with the address that DHCPv6
	// gives them and a /64 on the link.
	IPv6 bool
	// HeadOnly asks for kernel and initramfs without reading them, for tests with
	// many servers.
	HeadOnly bool
	// POST is how long the firmware takes before it boots; 10 ms. BootTime is how
	// long a kernel takes to start; 10 ms.
	POST, BootTime time.Duration
	// ShutdownTime is how long the installed system takes to stop; 10 ms.
	// IgnoreShutdown makes it deaf to the power button, as the agent always is.
	ShutdownTime   time.Duration
	IgnoreShutdown bool
	// Retry is the pause between attempts: of the boot order, of the agent's calls,
	// of those of the installed system; 500 ms.
	Retry time.Duration
	// CallTimeout bounds one call of the agent to its manager; 30 s, the agent's own.
	CallTimeout time.Duration
	// DHCPTimeout is how long a DHCP request waits before it is repeated; 2 s.
	DHCPTimeout time.Duration
	// System is the installed operating system beyond what Ingot asks of it: it is
	// called on each boot from a disk that Ingot seeded, once the system has an
	// address, and runs until ctx ends with the power, the shutdown or the reset;
	// the server is not off before it has returned. nil: there is no more to it.
	System func(ctx context.Context, os System)
	// Live is called when a live system has an address, before it asks for its data, with
	// its command line, which holds a secret. nil: nobody is told.
	Live func(ctx context.Context, commandLine string)
	// Pace is called at each step, and may take its time until ctx ends with the work or the
	// power: tests slow the server down by it, or hold it. nil: no step takes time.
	Pace func(ctx context.Context, step Step)
	// Console gets a line for each event, in order; nil: nobody does. It must not
	// call the server.
	Console func(Event)
}

// Step is what the server is about to do. All but StepBoot are the agent's work.
type Step string

// The steps.
const (
	// StepProbe: look at what hardware there is.
	StepProbe Step = "Probe"
	// StepWrite: write or zero a part of a disk.
	StepWrite Step = "Write"
	// StepSeed: give the written system its data.
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
	// Detail is for people.
	Detail string
}

// EventKind says what happened.
type EventKind string

// The events, in the order of a life.
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
	// EventLive is what a system says that runs from memory and installs itself.
	EventLive   EventKind = "Live"
	EventSystem EventKind = "System"
	// EventDeaf is a press of the power button that the system does not hear.
	EventDeaf     EventKind = "Deaf"
	EventBooted   EventKind = "Booted"
	EventScrubbed EventKind = "Scrubbed"
	// EventUserData is what the system says of the user data (System.Event).
	EventUserData EventKind = "UserData"
	EventFailed   EventKind = "Failed"
)

// Server is a simulated server. It is a lab/bmc.Machine, and safe for concurrent
// use.
type Server struct {
	bmc.BootSetting

	cfg   Config
	disks []*Disk

	mu     sync.Mutex
	events []Event
	// life is what runs while the power is on; nil: it is off.
	life *life
}

// life is the time from power-on to power-off, or to a reset.
type life struct {
	cancel context.CancelFunc
	done   chan struct{}
	// button is pressed by Shutdown and Reboot; who listens decides.
	button chan bmc.Action
}

// New makes a server that is off. Missing disk files are made, all zeroes.
// Close switches it off for good.
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

// Disks are the server's disks, in the order of the configuration.
func (s *Server) Disks() []*Disk { return s.disks }

// Events lists what happened so far, oldest first.
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
	return s.life != nil
}

// Power implements lab/bmc.Machine. After Off has returned, nothing of the server
// runs any more: no packet is sent and no byte written.
func (s *Server) Power(_ context.Context, action bmc.Action) error {
	switch action {
	case bmc.On:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.life == nil {
			s.start("")
		}
	case bmc.Off:
		s.cut("power cut")
	case bmc.Reset:
		if s.cut("reset") {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.life == nil {
				s.start("after a reset")
			}
		}
	case bmc.Shutdown, bmc.Reboot:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.life != nil {
			select {
			case s.life.button <- action:
			default: // pressed already
			}
		}
	default:
		return fmt.Errorf("simulated server %s: unknown power action %q", s.cfg.Name, action)
	}
	return nil
}

// start begins a life. The lock is held.
func (s *Server) start(why string) {
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{cancel: cancel, done: make(chan struct{}), button: make(chan bmc.Action, 1)}
	s.life = l
	s.eventLocked(EventPowerOn, why)
	go func() {
		defer close(l.done)
		defer cancel()
		s.live(ctx, l)
		s.end(l)
	}()
}

// end is the server switching itself off.
func (s *Server) end(l *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == l {
		s.life = nil
		s.eventLocked(EventPowerOff, "by itself")
	}
}

// cut ends a life from outside and waits for its end. It says whether there was
// one.
func (s *Server) cut(why string) bool {
	s.mu.Lock()
	l := s.life
	s.life = nil
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

// sleep waits; false: the power was cut.
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
