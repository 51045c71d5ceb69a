// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
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

// Stage is a stage of a boot that was reached.
type Stage string

// The stages, in the order in which most boots pass them. A boot may skip some: a ROM
// that is iPXE loads no loader, a unified kernel image has no script.
const (
	// DHCP: the firmware was offered an address, or a boot file.
	DHCP Stage = "DHCP"
	// Loader: the boot loader was sent.
	Loader Stage = "Loader"
	// Script: the boot script was fetched.
	Script Stage = "Script"
	// Kernel and Initramfs were asked for.
	Kernel    Stage = "Kernel"
	Initramfs Stage = "Initramfs"
	// Agent: Ingot's agent runs, and asks for its address.
	Agent Stage = "Agent"
)

// Outcome is how a boot ended, as far as the boot server can see.
type Outcome string

// The outcomes.
const (
	// RanAgent: the agent runs.
	RanAgent Outcome = "Agent"
	// WentToDisk: the host was sent to its disk.
	WentToDisk Outcome = "Disk"
	// Stopped: it was to boot the agent, and nothing more was heard of it.
	Stopped Outcome = "Stopped"
)

// Mark says when a stage was reached.
type Mark struct {
	Stage Stage     `json:"stage"`
	At    time.Time `json:"at"`
}

// Boot is one boot of one host. It is also what goes over the wire.
type Boot struct {
	// Host is "<namespace>/<name>", MAC the boot NIC's.
	Host string `json:"host"`
	MAC  string `json:"mac"`
	// Firmware that began it, as DHCP knows it.
	Firmware string `json:"firmware,omitempty"`
	// Server is the boot server that saw it.
	Server string `json:"server,omitempty"`
	// Port is where the network says that the host is plugged in.
	Port    string  `json:"port,omitempty"`
	Marks   []Mark  `json:"marks"`
	Outcome Outcome `json:"outcome"`
	// Trouble is the last thing that could not be given to it.
	Trouble string `json:"trouble,omitempty"`
}

// Started is when the boot began.
func (b Boot) Started() time.Time {
	if len(b.Marks) == 0 {
		return time.Time{}
	}
	return b.Marks[0].At
}

const (
	// DefaultQuiet is after what silence a boot is over: longer than a server takes
	// from its loader to its kernel.
	DefaultQuiet = 3 * time.Minute
	// DefaultInterval is how often boots that are over are handed over.
	DefaultInterval = 5 * time.Second
	// maxBoots bounds the boots under way, and those that wait to be handed over.
	maxBoots = 8192
	// maxBatch is how many are handed over at once.
	maxBatch = 256
	// maxText bounds texts, in bytes.
	maxText = 256
)

// Waits are the tracker's; 0 means the default.
type Waits struct {
	Quiet, Interval time.Duration
}

// Options of a Tracker. All may be zero.
type Options struct {
	// Deliver takes boots that are over; an error: it is asked again. Nil: nobody does.
	Deliver func(context.Context, []Boot) error
	// Server is what this boot server is called in boots.
	Server  string
	Waits   Waits
	Metrics *Metrics
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Tracker is a pxe.Observer. It is safe for concurrent use.
type Tracker struct {
	o  Options
	mu sync.Mutex
	// byMAC are the boots under way, byClient the same by the address of the host.
	byMAC    map[string]*boot
	byClient map[netip.Addr]*boot
	over     []Boot
	// recent are the hosts of which boots were handed over of late.
	recent ttlset.Map[string, *rate.Limiter]
}

// boot is one under way.
type boot struct {
	Boot
	key string
	// here: the host took what this boot server offered; else it boots by another
	// replica, which hears and tells the rest.
	here   bool
	plan   pxe.PlanKind
	client netip.Addr
	last   time.Time
}

// New makes a Tracker.
func New(o Options) *Tracker {
	if o.Waits.Quiet <= 0 {
		o.Waits.Quiet = DefaultQuiet
	}
	if o.Waits.Interval <= 0 {
		o.Waits.Interval = DefaultInterval
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t := &Tracker{o: o, byMAC: map[string]*boot{}, byClient: map[netip.Addr]*boot{}}
	t.recent.Max = maxBoots
	return t
}

// Observe implements pxe.Observer.
func (t *Tracker) Observe(e pxe.BootEvent) {
	if e.FromSystem {
		return // it renews its address: no boot
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e.Stage {
	case pxe.StageOffer, pxe.StageAck:
		t.addressed(e)
	case pxe.StageLoader:
		t.reach(t.find(e), Loader, e)
	case pxe.StageScript:
		b := t.find(e)
		t.reach(b, Script, e)
		if b != nil && e.Detail == pxe.LocalDisk.String() {
			t.end(b, WentToDisk)
		}
	case pxe.StageFile:
		b := t.find(e)
		stage := Kernel
		if b != nil && b.reached(Kernel) {
			stage = Initramfs
		}
		t.reach(b, stage, e)
	case pxe.StageFailed:
		if b := t.find(e); b != nil {
			b.Trouble, b.last = text(e.Detail), e.At
		}
	}
}

// addressed takes an offer or an acknowledgement of DHCP.
func (t *Tracker) addressed(e pxe.BootEvent) {
	if e.Host == "" || e.MAC == nil {
		return
	}
	b := t.byMAC[string(e.MAC)]
	switch {
	case e.FromAgent:
		// An offer will do: the agent may take another replica's. A host that is not to
		// run it does not, whatever a packet says.
		if b != nil && e.Plan == pxe.Agent {
			t.reach(b, Agent, e)
			t.end(b, RanAgent)
		}
		return
	case b != nil && b.again(e):
		t.end(b, b.silent())
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
	b.here = b.here || e.Stage == pxe.StageAck
	if e.Address.IsValid() && e.Stage == pxe.StageAck {
		t.at(b, e.Address)
	}
	t.reach(b, DHCP, e)
}

// again says whether the firmware has begun anew: it asks for an address after it had
// gone further than a loader goes, or after a while.
func (b *boot) again(e pxe.BootEvent) bool {
	return e.Stage == pxe.StageOffer && (b.reached(Script) || b.reached(Kernel) || b.reached(Loader) && e.Firmware == b.Firmware)
}

// at notes the address that the host has, by which TFTP and files know it.
func (t *Tracker) at(b *boot, client netip.Addr) {
	if b.client.IsValid() && t.byClient[b.client] == b {
		delete(t.byClient, b.client)
	}
	b.client = client
	t.byClient[client] = b
}

// find finds the boot that an event is of; nil: none that is known.
func (t *Tracker) find(e pxe.BootEvent) *boot {
	if e.MAC != nil {
		b := t.byMAC[string(e.MAC)]
		if b != nil && e.Client.IsValid() && !b.client.IsValid() {
			t.at(b, e.Client) // mode Proxy: another server gave it
		}
		return b
	}
	return t.byClient[e.Client]
}

func (b *boot) reached(stage Stage) bool {
	for _, m := range b.Marks {
		if m.Stage == stage {
			return true
		}
	}
	return false
}

// reach marks a stage when it is reached first.
func (t *Tracker) reach(b *boot, stage Stage, e pxe.BootEvent) {
	if b == nil {
		return
	}
	b.here = b.here || stage != DHCP && stage != Agent
	if !b.reached(stage) {
		if b.here && len(b.Marks) > 0 {
			t.o.Metrics.stage(stage, e.At.Sub(b.last))
		}
		b.Marks = append(b.Marks, Mark{stage, e.At})
		b.putBefore()
	}
	b.last = e.At
}

// late bounds how much later a boot server may tell of the end of a transfer than of the
// request that followed it: by another goroutine each.
const late = time.Second

// putBefore puts a loader that was just marked before the script that it asked for.
func (b *boot) putBefore() {
	n := len(b.Marks) - 1
	i := slices.IndexFunc(b.Marks, func(m Mark) bool { return m.Stage == Script })
	if i < 0 || b.Marks[n].Stage != Loader || b.Marks[n].At.Sub(b.Marks[i].At) >= late {
		return
	}
	b.Marks = slices.Insert(b.Marks[:n], i, Mark{Loader, b.Marks[i].At})
}

// silent is how a boot of which nothing more is heard has ended.
func (b *boot) silent() Outcome {
	if b.plan == pxe.Agent {
		return Stopped
	}
	return WentToDisk
}

// end has the boot handed over.
func (t *Tracker) end(b *boot, outcome Outcome) {
	delete(t.byMAC, b.key)
	if t.byClient[b.client] == b {
		delete(t.byClient, b.client)
	}
	if !b.here {
		return
	}
	b.Outcome = outcome
	t.o.Metrics.end(outcome)
	if t.o.Deliver == nil {
		return
	}
	if !t.spend(b) {
		t.o.Metrics.drop()
		return
	}
	t.over = append(t.over, b.Boot)
	t.bound()
}

// bound lets the oldest boots go that wait to be handed over, where they are too many.
func (t *Tracker) bound() {
	for ; len(t.over) > maxBoots; t.over = t.over[1:] {
		t.o.Metrics.drop()
	}
}

// Run hands boots over until ctx ends.
func (t *Tracker) Run(ctx context.Context) error {
	tick := time.NewTicker(t.o.Waits.Interval)
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

// Flush ends the boots of which nothing more is heard, and hands over what is over.
// What cannot be handed over now is kept for the next time.
func (t *Tracker) Flush(ctx context.Context) {
	t.mu.Lock()
	now := t.o.Now()
	for _, b := range t.byMAC {
		if now.Sub(b.last) >= t.o.Waits.Quiet {
			t.end(b, b.silent())
		}
	}
	t.mu.Unlock()
	for ctx.Err() == nil {
		t.mu.Lock()
		n := min(len(t.over), maxBatch)
		batch := t.over[:n:n]
		t.over = t.over[n:]
		t.mu.Unlock()
		if n == 0 {
			return
		}
		if err := t.o.Deliver(ctx, batch); err != nil {
			t.mu.Lock()
			t.over = append(batch, t.over...)
			t.bound()
			t.mu.Unlock()
			return
		}
	}
}

// text keeps what comes from elsewhere short and printable.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), maxText)]
}
