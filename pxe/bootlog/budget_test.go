// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

// An hour of forged packets with a host's MAC address causes few records, which include the
// host's real boots.
func TestForgedPacketsDoNotHideBoots(t *testing.T) {
	real := []step{offer(0, "BIOS"), ack(1, "BIOS"), sent(2, pxe.StageLoader, "x"), script(3, pxe.Agent), sent(4, pxe.StageFile, "vmlinuz"), byAgent(offer(9, "agent"))}
	for name, tc := range map[string]struct {
		forged []step
		most   int
		// room: a boot at the end of the hour is recorded.
		room bool
	}{
		"the agent's":             {[]step{ack(0, "BIOS"), byAgent(offer(0, "agent"))}, 65, true},
		"firmware that resets":    {[]step{ack(0, "BIOS"), script(0, pxe.Agent), offer(0, "BIOS")}, 65, false},
		"firmware that continues": {[]step{ack(0, "BIOS")}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			now, all, whole := begin, 0, 0
			tracker := New(Options{Now: func() time.Time { return now }, Deliver: func(_ context.Context, boots []Boot) error {
				for _, b := range boots {
					all++
					if len(b.Marks) == 5 {
						whole++
					}
				}
				return nil
			}})
			play := func(steps []step) {
				for _, s := range steps {
					s.At = now
					tracker.Observe(s.BootEvent)
				}
			}
			for range 3600 {
				now = now.Add(time.Second)
				play(tc.forged)
				tracker.Flush(t.Context())
			}
			if all > tc.most {
				t.Errorf("%d records of an hour, want %d at most", all, tc.most)
			}
			if tc.room {
				play(real)
				tracker.Flush(t.Context())
				if whole != 1 {
					t.Errorf("the real boot has %d records", whole)
				}
			}
		})
	}
}

// A host that is not to run the agent does not run it, whatever a packet claims.
func TestAgentNeedsItsPlan(t *testing.T) {
	now := begin
	var got []Boot
	tracker := New(Options{Now: func() time.Time { return now }, Deliver: func(_ context.Context, boots []Boot) error {
		got = append(got, boots...)
		return nil
	}})
	for _, s := range []step{toDisk(ack(0, "BIOS")), byAgent(toDisk(offer(1, "agent")))} {
		s.At = begin
		tracker.Observe(s.BootEvent)
	}
	now = now.Add(time.Hour)
	tracker.Flush(t.Context())
	if len(got) != 1 || got[0].Outcome != BootedFromDisk || len(got[0].Marks) != 1 {
		t.Errorf("boots: %+v", got)
	}
}

func TestBudgetsAreBounded(t *testing.T) {
	tracker := New(Options{Now: func() time.Time { return begin }, Deliver: func(context.Context, []Boot) error { return nil }})
	for n := range maxBoots + 10 {
		b := &boot{key: string(net.HardwareAddr{byte(n >> 8), byte(n)}), isLocal: true}
		b.Host = string(rune(n + 0x10000))
		tracker.end(b, Incomplete)
	}
	if tracker.recent.Len() != maxBoots || len(tracker.finished) != maxBoots {
		t.Errorf("%d hosts are remembered, %d boots wait", tracker.recent.Len(), len(tracker.finished))
	}
}
