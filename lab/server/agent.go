// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/bmc"
)

// maxBackoff is the longest delay between calls to the manager, in multiples of the shortest: that of
// the real agent. With shorter delays the agents of hundreds of servers overload a manager.
const maxBackoff = 30

// runAgent runs the agent's own code on this server, like the agent's /init.
func (s *Server) runAgent(ctx context.Context, _ *uptime, commandLine string) (outcome, error) {
	args, err := agent.ParseArguments(commandLine)
	if err != nil {
		return tryNext, err
	}
	if missing := args.Missing(); len(missing) > 0 {
		return tryNext, fmt.Errorf("%w: %s", agent.ErrIncomplete, strings.Join(missing, ", "))
	}
	s.event(EventAgent, "starts, manager at %s", strings.Join(args.Servers, ", "))
	lease, err := s.dhcp(ctx, agentClient, bmc.UEFI)
	if err != nil {
		return powerOff, err // like the agent's /init
	}
	identity, err := agent.NewIdentity()
	if err != nil {
		return powerOff, err
	}
	live := &liveKernels{server: s}
	cfg := agent.Config{
		Servers: args.Servers, Files: args.Files, Pins: args.Pins, Token: args.Token, Identity: identity, Version: "simulated",
		Find: func(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
			return s.findManager(ctx, lease.address.Addr(), avoid)
		},
		Probe: func(ctx context.Context) (agentapi.Hardware, error) {
			s.pace(ctx, StepProbe)
			return s.hardware(), ctx.Err()
		},
		Disks:   (*agentDisks)(s),
		Seeder:  (*agentDisks)(s),
		Kernels: live,
		Dial:    s.cfg.NIC.DialContext,
		Log:     func(format string, args ...any) { s.event(EventAgent, format, args...) },
		// A simulated server is faster.
		ImageStall: s.cfg.CallTimeout, CallTimeout: s.cfg.CallTimeout, MinBackoff: s.cfg.Retry, MaxBackoff: maxBackoff * s.cfg.Retry,
		Sleep: func(ctx context.Context, d time.Duration) error {
			if !sleep(ctx, min(d, maxBackoff*s.cfg.Retry)) {
				return context.Cause(ctx)
			}
			return nil
		},
	}
	for {
		action, err := agent.Run(ctx, cfg)
		if ctx.Err() != nil {
			return powerOff, nil
		}
		switch action {
		case agentapi.BootDisk:
			s.event(EventAgentDone, "reboots into the installed disk")
			return reboot, nil
		case agentapi.StartLive:
			s.event(EventAgentDone, "starts the live system")
			return s.liveSystem(ctx, live.commandLine)
		case agentapi.Restart:
			s.event(EventAgentDone, "leaves the server as it was")
			return reboot, nil
		case agentapi.PowerOff:
			s.event(EventAgentDone, "powers off (%v)", err)
			return powerOff, nil
		}
		s.event(EventFailed, "agent: %v", err)
		if !sleep(ctx, s.cfg.Retry) {
			return powerOff, nil
		}
	}
}

// pace calls Config.Pace.
func (s *Server) pace(ctx context.Context, step Step) {
	if s.cfg.Pace != nil {
		s.cfg.Pace(ctx, step)
	}
}

// hardware returns the inventory that the agent reports.
func (s *Server) hardware() agentapi.Hardware {
	h := agentapi.Hardware{
		UUID: strings.ToLower(s.cfg.UUID), Serial: s.cfg.Serial, Manufacturer: s.cfg.Manufacturer, Product: s.cfg.Model,
		Firmware: "UEFI", Architecture: runtime.GOARCH, MemoryBytes: s.cfg.MemoryBytes,
		CPU:  agentapi.CPU{Model: "simulated", Sockets: 1, Cores: s.cfg.Cores, Threads: 2 * s.cfg.Cores},
		NICs: []agentapi.NIC{{Name: "eth0", MAC: s.cfg.NIC.MAC().String(), SpeedMbps: 10000, Carrier: true, Driver: "lab"}},
	}
	if s.Boot().Mode == bmc.Legacy {
		h.Firmware = "BIOS"
	}
	return h
}

// agentDisks implements the agent's disks.
type agentDisks Server

func (a *agentDisks) List(context.Context) ([]agentapi.Disk, error) {
	disks := make([]agentapi.Disk, len(a.disks))
	for i, d := range a.disks {
		// A disk without a file simulates a removed disk.
		if _, err := os.Stat(d.cfg.Path); err != nil {
			return nil, fmt.Errorf("read %s: %w", d.name, err)
		}
		disks[i] = d.describe()
	}
	return disks, nil
}

func (a *agentDisks) Names(ctx context.Context) ([]agentapi.Disk, error) {
	disks, err := a.List(ctx)
	for i := range disks {
		disks[i].Marker = nil
	}
	return disks, err
}

func (a *agentDisks) Open(ctx context.Context, disk agentapi.Disk) (block.Device, error) {
	d, err := a.find(disk)
	if err != nil {
		return nil, err
	}
	dev, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	return &pacedDisk{Device: dev, pace: func(step Step) { (*Server)(a).pace(ctx, step) }, complete: func() bool {
		now := d.describe().Marker
		return now != nil && now.Complete
	}}, nil
}

// pacedDisk calls pace before each write.
type pacedDisk struct {
	block.Device
	pace func(Step)
	// complete reports whether the disk's marker is complete.
	complete func() bool
}

func (p *pacedDisk) WriteAt(b []byte, off int64) (int, error) {
	p.pace(StepWrite)
	before := p.complete()
	n, err := p.Device.WriteAt(b, off)
	if err == nil && !before && p.complete() {
		p.pace(StepReport)
	}
	return n, err
}

func (p *pacedDisk) Zero(off, n int64) error {
	p.pace(StepWrite)
	return p.Device.Zero(off, n)
}

func (a *agentDisks) Seed(ctx context.Context, disk agentapi.Disk, seed agentapi.Bootstrap) error {
	d, err := a.find(disk)
	if err != nil {
		return err
	}
	(*Server)(a).pace(ctx, StepSeed)
	return d.writeSeed(ctx, diskSeed{
		UserData: seed.UserData.Reveal(), MetaData: seed.MetaData, VendorData: seed.VendorData.Reveal(),
		NetworkConfig: seed.NetworkConfig, WrittenAt: time.Now(),
	})
}

func (a *agentDisks) find(disk agentapi.Disk) (*Disk, error) {
	if i := slices.IndexFunc(a.disks, func(d *Disk) bool { return d.name == disk.Name }); i >= 0 {
		return a.disks[i], nil
	}
	return nil, fmt.Errorf("no disk %s", disk.Name)
}
