// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/ingot-metal/ingot/internal/ttlset"
	"github.com/ingot-metal/ingot/pxe"
)

// Stage is a stage that a boot reached.
type Stage string

// The stages, in their usual order. A boot may skip some: firmware with built-in iPXE loads
// no loader, and a unified kernel image needs no script.
const (
	// DHCP: the firmware got an offer of an address or a boot file.
	DHCP Stage = "DHCP"
	// Loader: the host fetched the boot loader.
	Loader Stage = "Loader"
	// Script: the host fetched the boot script.
	Script Stage = "Script"
	// Kernel and Initramfs: the host requested the file.
	Kernel    Stage = "Kernel"
	Initramfs Stage = "Initramfs"
	// Agent: Ingot's agent runs and requests its address.
	Agent Stage = "Agent"
)

// Outcome is the end of a boot, as far as the boot server can see.
type Outcome string

const (
	AgentStarted Outcome = "Agent"
	// BootedFromDisk: the boot server sent the host to its disk.
	BootedFromDisk Outcome = "Disk"
	// Incomplete: the host was to boot the agent and sent no further request.
	Incomplete Outcome = "Incomplete"
)

type Mark struct {
	Stage Stage     `json:"stage"`
	At    time.Time `json:"at"`
}

// Boot is one boot of one host. Its JSON form is also the wire format.
type Boot struct {
	Host string `json:"host"` // "namespace/name"
	MAC  string `json:"mac"`
	// Firmware is the firmware type according to DHCP.
	Firmware string `json:"firmware,omitempty"`
	Server   string `json:"server,omitempty"`
	// Port is where the host is plugged in, according to the network.
	Port    string  `json:"port,omitempty"`
	Marks   []Mark  `json:"marks"`
	Outcome Outcome `json:"outcome"`
	// LastFailure is the last delivery that failed, with its cause.
	LastFailure string `json:"lastFailure,omitempty"`
}

func (b Boot) Started() time.Time {
	if len(b.Marks) == 0 {
		return time.Time{}
	}
	return b.Marks[0].At
}

const (
	// DefaultQuiet is the silence after which a boot is over. It is longer than any server
	// takes from its loader to its kernel.
	DefaultQuiet = 3 * time.Minute
	// DefaultInterval is the time between two deliveries.
	DefaultInterval = 5 * time.Second
	// maxBoots limits both the running boots and the undelivered ones.
	maxBoots = 8192
	maxBatch = 256 // boots in one delivery
	maxText  = 256 // bytes
)

// Timing configures the tracker's times; 0 means the default.
type Timing struct {
	Quiet, Interval time.Duration
}

// Options configures a Tracker. All fields may be zero.
type Options struct {
	// Deliver receives finished boots. The tracker retries after an error. Nil means that
	// boots are only measured.
	Deliver func(context.Context, []Boot) error
	Server  string
	Timing  Timing
	Metrics *Metrics
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Tracker is a pxe.Observer that combines events into boots. It is safe for concurrent use.
type Tracker struct {
	o  Options
	mu sync.Mutex
	// byMAC has the running boots, and byClient the same boots by the host's address.
	byMAC    map[string]*boot
	byClient map[netip.Addr]*boot
	finished []Boot
	// recent has the delivery budgets of hosts with recent boots.
	recent ttlset.Map[string, *rate.Limiter]
}

type boot struct {
	Boot
	key string
	// isLocal is true if the host accepted this boot server's offer. Otherwise the host boots
	// from another replica, which reports the boot.
	isLocal bool
	plan    pxe.PlanKind
	client  netip.Addr
	last    time.Time
}

// New returns a Tracker; call Run to deliver its boots.
func New(o Options) *Tracker {
	o.Timing.Quiet, o.Timing.Interval = cmp.Or(o.Timing.Quiet, DefaultQuiet), cmp.Or(o.Timing.Interval, DefaultInterval)
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Tracker{o: o, byMAC: map[string]*boot{}, byClient: map[netip.Addr]*boot{}}
	t.recent.Max = maxBoots
	return t
}

func (t *Tracker) Observe(e pxe.BootEvent) {
	if e.FromSystem {
		return // renews its address
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Stage {
	case pxe.StageOffer, pxe.StageAck:
		t.addressed(e)
	case pxe.StageLoader:
		t.markStage(t.find(e), Loader, e)
	case pxe.StageScript:
		b := t.find(e)
		t.markStage(b, Script, e)
		if b != nil && e.Detail == pxe.LocalDisk.String() {
			t.end(b, BootedFromDisk)
		}
	case pxe.StageFile:
		b := t.find(e)
		stage := Kernel
		if b != nil && b.hasReached(Kernel) {
			stage = Initramfs
		}
		t.markStage(b, stage, e)
	case pxe.StageFailed:
		if b := t.find(e); b != nil {
			b.LastFailure, b.last = text(e.Detail), e.At
		}
	}
}

// addressed handles a DHCP offer or acknowledgment.
func (t *Tracker) addressed(e pxe.BootEvent) {
	if e.Host == "" || e.MAC == nil {
		return
	}
	b := t.byMAC[string(e.MAC)]
	switch {
	case e.FromAgent:
		// An offer is enough, because the agent may accept another replica's. A host that is
		// not to run the agent does not run it, whatever a packet claims.
		if b != nil && e.Plan == pxe.Agent {
			t.markStage(b, Agent, e)
			t.end(b, AgentStarted)
		}
		return
	case b != nil && b.hasRestarted(e):
		t.end(b, b.silentOutcome())
		b = nil
	}
	if b == nil {
		if len(t.byMAC) >= maxBoots {
			return
		}
		b = &boot{key: string(e.MAC), Boot: Boot{Host: e.Host, MAC: e.MAC.String(), Firmware: e.Firmware, Server: t.o.Server, Port: text(e.Port.String())}}
		t.byMAC[b.key] = b
	}
	b.plan = e.Plan
	b.isLocal = b.isLocal || e.Stage == pxe.StageAck
	if e.Address.IsValid() && e.Stage == pxe.StageAck {
		t.setClient(b, e.Address)
	}
	t.markStage(b, DHCP, e)
}

// hasRestarted reports whether the firmware started over: it requests an address after it got
// further than a boot loader's own DHCP exchange.
func (b *boot) hasRestarted(e pxe.BootEvent) bool {
	return e.Stage == pxe.StageOffer && (b.hasReached(Script) || b.hasReached(Kernel) || b.hasReached(Loader) && e.Firmware == b.Firmware)
}

// setClient records the host's address, which identifies the host in TFTP and file requests.
func (t *Tracker) setClient(b *boot, client netip.Addr) {
	if b.client.IsValid() && t.byClient[b.client] == b {
		delete(t.byClient, b.client)
	}
	b.client = client
	t.byClient[client] = b
}

func (t *Tracker) find(e pxe.BootEvent) *boot {
	if e.MAC != nil {
		b := t.byMAC[string(e.MAC)]
		if b != nil && e.Client.IsValid() && !b.client.IsValid() {
			t.setClient(b, e.Client) // mode Proxy: another server assigned the address
		}
		return b
	}
	return t.byClient[e.Client]
}

func (b *boot) hasReached(stage Stage) bool {
	return slices.ContainsFunc(b.Marks, func(m Mark) bool { return m.Stage == stage })
}

// markStage records the first time that a boot reaches a stage.
func (t *Tracker) markStage(b *boot, stage Stage, e pxe.BootEvent) {
	if b == nil {
		return
	}
	b.isLocal = b.isLocal || stage != DHCP && stage != Agent
	if !b.hasReached(stage) {
		if b.isLocal && len(b.Marks) > 0 {
			t.o.Metrics.stage(stage, e.At.Sub(b.last))
		}
		b.Marks = append(b.Marks, Mark{stage, e.At})
		b.moveLoaderMark()
	}
	b.last = e.At
}

// maxReorder limits the difference between the reports of a transfer's end and of the next
// request. Both come from different goroutines.
const maxReorder = time.Second

// moveLoaderMark moves a loader mark that was just added before the mark of its script.
func (b *boot) moveLoaderMark() {
	n := len(b.Marks) - 1
	i := slices.IndexFunc(b.Marks, func(m Mark) bool { return m.Stage == Script })
	if i < 0 || b.Marks[n].Stage != Loader || b.Marks[n].At.Sub(b.Marks[i].At) >= maxReorder {
		return
	}
	b.Marks = slices.Insert(b.Marks[:n], i, Mark{Loader, b.Marks[i].At})
}

// silentOutcome returns the outcome of a boot that sends no further request.
func (b *boot) silentOutcome() Outcome {
	if b.plan == pxe.Agent {
		return Incomplete
	}
	return BootedFromDisk
}

// end finishes a boot and queues it for delivery.
func (t *Tracker) end(b *boot, outcome Outcome) {
	delete(t.byMAC, b.key)
	if t.byClient[b.client] == b {
		delete(t.byClient, b.client)
	}
	if !b.isLocal {
		return
	}
	b.Outcome = outcome
	t.o.Metrics.end(outcome)
	if t.o.Deliver == nil {
		return
	}
	if !t.mayDeliver(b) {
		t.o.Metrics.drop()
		return
	}
	t.finished = append(t.finished, b.Boot)
	t.dropOldest()
}

// dropOldest drops the oldest undelivered boots above maxBoots.
func (t *Tracker) dropOldest() {
	for ; len(t.finished) > maxBoots; t.finished = t.finished[1:] {
		t.o.Metrics.drop()
	}
}

func (t *Tracker) Run(ctx context.Context) error {
	tick := time.NewTicker(t.o.Timing.Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			t.Flush(ctx)
		}
	}
}

// Flush ends the boots that are silent and delivers all finished boots. After a failed
// delivery it keeps the boots for the next call.
func (t *Tracker) Flush(ctx context.Context) {
	t.mu.Lock()
	now := t.o.Now()
	for _, b := range t.byMAC {
		if now.Sub(b.last) >= t.o.Timing.Quiet {
			t.end(b, b.silentOutcome())
		}
	}
	t.mu.Unlock()
	for ctx.Err() == nil {
		t.mu.Lock()
		n := min(len(t.finished), maxBatch)
		batch := t.finished[:n:n]
		t.finished = t.finished[n:]
		t.mu.Unlock()
		if n == 0 {
			return
		}
		if err := t.o.Deliver(ctx, batch); err != nil {
			t.mu.Lock()
			t.finished = append(batch, t.finished...)
			t.dropOldest()
			t.mu.Unlock()
			return
		}
	}
}

// text shortens untrusted text and makes it printable.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), maxText)]
}
