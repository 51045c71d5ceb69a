// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ingot-metal/ingot/pxe"
)

var (
	begin   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hostMAC = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}
	given   = netip.MustParseAddr("192.0.2.7")
)

// step is an event some seconds after the start.
type step struct {
	after int
	pxe.BootEvent
}

func offer(after int, firmware string) step {
	return step{after, pxe.BootEvent{MAC: hostMAC, Host: "n/h", Stage: pxe.StageOffer, Firmware: firmware, Plan: pxe.Agent}}
}

func ack(after int, firmware string) step {
	return step{after, pxe.BootEvent{MAC: hostMAC, Host: "n/h", Stage: pxe.StageAck, Firmware: firmware, Plan: pxe.Agent, Address: given}}
}

func byAgent(s step) step { s.FromAgent = true; return s }
func toDisk(s step) step  { s.Plan = pxe.LocalDisk; return s }

func sent(after int, stage pxe.Stage, detail string) step {
	return step{after, pxe.BootEvent{Client: given, Stage: stage, Detail: detail}}
}

func script(after int, plan pxe.PlanKind) step {
	return step{after, pxe.BootEvent{MAC: hostMAC, Client: given, Stage: pxe.StageScript, Detail: plan.String()}}
}

func marks(pairs ...any) (out []Mark) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, Mark{pairs[i+1].(Stage), begin.Add(time.Duration(pairs[i].(int)) * time.Second)})
	}
	return out
}

func TestBoots(t *testing.T) {
	whole := []step{offer(0, "UEFI x64"), ack(4, "UEFI x64"), sent(6, pxe.StageLoader, "snponly.efi"), offer(8, "iPXE"), ack(9, "iPXE"),
		script(10, pxe.Agent), sent(11, pxe.StageFile, "vmlinuz"), sent(12, pxe.StageFile, "initramfs"), byAgent(offer(20, "agent")), byAgent(ack(21, "agent"))}
	wholeBoot := Boot{Firmware: "UEFI x64", Outcome: AgentStarted,
		Marks: marks(0, DHCP, 6, Loader, 10, Script, 11, Kernel, 12, Initramfs, 20, Agent)}
	later := func(steps []step, by int) (out []step) {
		for _, s := range steps {
			s.after += by
			out = append(out, s)
		}
		return out
	}
	for name, tc := range map[string]struct {
		steps []step
		want  []Boot
	}{
		"from firmware to agent": {whole, []Boot{wholeBoot}},
		"a loader that is reported late": {[]step{offer(0, "UEFI x64"), ack(1, "UEFI x64"), script(10, pxe.Agent), sent(10, pxe.StageFile, "vmlinuz"), sent(10, pxe.StageLoader, "snponly.efi"), byAgent(offer(20, "agent"))},
			[]Boot{{Firmware: "UEFI x64", Outcome: AgentStarted, Marks: marks(0, DHCP, 10, Loader, 10, Script, 10, Kernel, 20, Agent)}}},
		"a loader by a script": {[]step{offer(0, "UEFI x64"), ack(1, "UEFI x64"), script(10, pxe.Agent), sent(11, pxe.StageLoader, "shim.efi"), byAgent(offer(20, "agent"))},
			[]Boot{{Firmware: "UEFI x64", Outcome: AgentStarted, Marks: marks(0, DHCP, 10, Script, 11, Loader, 20, Agent)}}},
		"a ROM that is iPXE": {[]step{offer(0, "iPXE"), ack(1, "iPXE"), script(2, pxe.Agent), sent(3, pxe.StageFile, "vmlinuz"), byAgent(offer(9, "agent"))},
			[]Boot{{Firmware: "iPXE", Outcome: AgentStarted, Marks: marks(0, DHCP, 2, Script, 3, Kernel, 9, Agent)}}},
		"two boots": {append(append([]step(nil), whole...), later(whole, 60)...), []Boot{wholeBoot,
			{Firmware: "UEFI x64", Outcome: AgentStarted, Marks: marks(60, DHCP, 66, Loader, 70, Script, 71, Kernel, 72, Initramfs, 80, Agent)}}},
		"to its disk by script": {[]step{toDisk(offer(0, "iPXE")), toDisk(ack(1, "iPXE")), script(2, pxe.LocalDisk)},
			[]Boot{{Firmware: "iPXE", Outcome: BootedFromDisk, Marks: marks(0, DHCP, 2, Script)}}},
		"to its disk without a word": {[]step{toDisk(offer(0, "BIOS")), toDisk(ack(1, "BIOS"))},
			[]Boot{{Firmware: "BIOS", Outcome: BootedFromDisk, Marks: marks(0, DHCP)}}},
		"stops after the loader": {[]step{offer(0, "BIOS"), ack(1, "BIOS"), sent(2, pxe.StageLoader, "undionly.kpxe")},
			[]Boot{{Firmware: "BIOS", Outcome: Incomplete, Marks: marks(0, DHCP, 2, Loader)}}},
		"cannot get its loader, and starts over": {
			[]step{offer(0, "BIOS"), ack(1, "BIOS"), sent(2, pxe.StageFailed, "TFTP \"x\x01\": gone"), sent(3, pxe.StageLoader, "x"), offer(30, "BIOS"), ack(31, "BIOS")},
			[]Boot{{Firmware: "BIOS", Outcome: Incomplete, Marks: marks(0, DHCP, 3, Loader), LastFailure: "TFTP \"x?\": gone"},
				{Firmware: "BIOS", Outcome: Incomplete, Marks: marks(30, DHCP)}}},
		"by another replica":               {[]step{offer(0, "BIOS"), offer(8, "iPXE"), byAgent(offer(20, "agent"))}, nil},
		"takes no offer":                   {[]step{offer(0, "BIOS"), offer(4, "BIOS")}, nil},
		"an agent whose boot was not seen": {[]step{byAgent(offer(0, "agent")), byAgent(ack(1, "agent"))}, nil},
		"a system that renews":             {[]step{{0, pxe.BootEvent{MAC: hostMAC, Host: "n/h", Stage: pxe.StageAck, FromSystem: true}}}, nil},
		"an unknown machine":               {[]step{{0, pxe.BootEvent{MAC: hostMAC, Stage: pxe.StageAck, Firmware: "BIOS", Address: given}}, script(1, pxe.Agent)}, nil},
		"files of another client":          {[]step{sent(0, pxe.StageLoader, "x"), sent(1, pxe.StageFile, "vmlinuz"), sent(2, pxe.StageFailed, "x")}, nil},
		"with another server (mode Proxy)": {[]step{offer(0, "BIOS"), script(5, pxe.Agent), sent(6, pxe.StageFile, "vmlinuz"), byAgent(ack(9, "agent"))},
			[]Boot{{Firmware: "BIOS", Outcome: AgentStarted, Marks: marks(0, DHCP, 5, Script, 6, Kernel, 9, Agent)}}},
	} {
		t.Run(name, func(t *testing.T) {
			now := begin
			var got []Boot
			tracker := New(Options{Server: "192.0.2.1", Now: func() time.Time { return now }, Deliver: func(_ context.Context, boots []Boot) error {
				got = append(got, boots...)
				return nil
			}})
			for _, s := range tc.steps {
				s.At = begin.Add(time.Duration(s.after) * time.Second)
				tracker.Observe(s.BootEvent)
				now = s.At
			}
			tracker.Flush(t.Context())
			now = now.Add(4 * time.Minute)
			tracker.Flush(t.Context())
			for i := range tc.want {
				tc.want[i].Host, tc.want[i].MAC, tc.want[i].Server = "n/h", hostMAC.String(), "192.0.2.1"
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("boots (-want +got):\n%s", diff)
			}
			if len(tracker.byMAC)+len(tracker.byClient)+len(tracker.finished) != 0 {
				t.Errorf("%d, %d, %d are remembered", len(tracker.byMAC), len(tracker.byClient), len(tracker.finished))
			}
		})
	}
}

// The memory is bounded, undelivered boots are kept, and no metric has a host label.
func TestTrackerIsBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewMetrics(registry); err != nil {
		t.Error(err)
	}
	now, away, kept := begin, true, 0
	tracker := New(Options{Metrics: metrics, Now: func() time.Time { return now }, Deliver: func(_ context.Context, boots []Boot) error {
		if away {
			return errors.New("the manager is down")
		}
		if len(boots) > maxBatch {
			t.Errorf("%d boots at once", len(boots))
		}
		kept += len(boots)
		return nil
	}})
	const hosts = maxBoots + 1000
	for round := range 2 {
		for n := range hosts {
			mac := net.HardwareAddr{0x52, 0x54, 0, byte(n >> 16), byte(n >> 8), byte(n)}
			tracker.Observe(pxe.BootEvent{MAC: mac, Host: fmt.Sprint("n/h", n), Stage: pxe.StageAck, Firmware: "BIOS", Plan: pxe.Agent, At: now,
				Address: netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})})
		}
		if len(tracker.byMAC) != maxBoots || len(tracker.byClient) != maxBoots {
			t.Errorf("round %d: %d boots under way, %d addresses", round, len(tracker.byMAC), len(tracker.byClient))
		}
		now = now.Add(DefaultQuiet)
		tracker.Flush(t.Context())
	}
	if len(tracker.finished) != maxBoots {
		t.Errorf("%d boots wait to be handed over", len(tracker.finished))
	}
	away = false
	tracker.Flush(t.Context())
	if kept != maxBoots || len(tracker.finished) != 0 {
		t.Errorf("%d boots were handed over, %d wait", kept, len(tracker.finished))
	}
	if n := testutil.ToFloat64(metrics.boots.WithLabelValues(string(Incomplete))); n != 2*maxBoots {
		t.Errorf("%v boots stopped", n)
	}
	if n := testutil.ToFloat64(metrics.dropped); n != maxBoots {
		t.Errorf("%v boots were dropped", n)
	}
	if n, err := testutil.GatherAndCount(registry, "ingot_boot_stage_duration_seconds", "ingot_boots_total"); err != nil || n > 9 {
		t.Errorf("%d series, %v", n, err)
	}
}
