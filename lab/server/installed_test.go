// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// writeImage writes the boot code and label of an installed image.
func writeImage(t *testing.T, s *Server, release string) {
	t.Helper()
	raw := make([]byte, 128<<10)
	raw[510], raw[511] = 0x55, 0xaa
	if release != "" {
		ImageRelease(raw, release)
	}
	f, err := os.OpenFile(s.disks[0].Path(), os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(raw, 0)
	must(t, err)
	must(t, f.Close())
}

func TestSystemGetsSeedAndRelease(t *testing.T) {
	for _, release := range []string{"v1.36.3", ""} {
		var got []System
		s := newServer(t, func(c *Config) {
			c.UUID = "u-1"
			c.System = func(ctx context.Context, os System) {
				got = append(got, os)
				os.Event("running")
				<-ctx.Done()
			}
		})
		writeImage(t, s, release)
		must(t, s.disks[0].writeSeed(t.Context(), diskSeed{UserData: "#cloud-config", MetaData: "instance-id: a"}))

		ctx, cancel := context.WithCancel(t.Context())
		var system sync.WaitGroup
		started, err := s.startSystem(ctx, s.disks[0], lease{address: netip.MustParsePrefix("10.0.0.7/24")}, &system)
		must(t, err)
		waitFor(t, s, "the system's event", func() bool { return s.count(EventUserData) == 1 })
		cancel()
		system.Wait()
		want := []System{{
			Server: "s", UUID: "u-1", UserData: "#cloud-config", MetaData: "instance-id: a",
			Address: netip.MustParseAddr("10.0.0.7"), Release: release,
		}}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(System{}, "Event"), cmpopts.EquateComparable(netip.Addr{})); diff != "" || !started {
			t.Errorf("started %v; (-want +got):\n%s", started, diff)
		}
	}
}

func TestSystemWithoutSeed(t *testing.T) {
	s := newServer(t, func(c *Config) {
		c.System = func(context.Context, System) { t.Error("called for a disk without a seed") }
	})
	writeImage(t, s, "v1.36.3")
	var system sync.WaitGroup
	started, err := s.startSystem(t.Context(), s.disks[0], lease{}, &system)
	must(t, err)
	system.Wait()
	if !started {
		t.Error("not started: it would be tried again")
	}
	s.cfg.System = nil
	if started, err := s.startSystem(t.Context(), s.disks[0], lease{}, &system); !started || err != nil {
		t.Errorf("without a system: %v, %v", started, err)
	}
}
