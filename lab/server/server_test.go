// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agent/wipe"
	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/test/eventually"
)

// unplugged is a NIC without a network.
type unplugged struct{}

var errUnplugged = errors.New("no cable")

func (unplugged) MAC() net.HardwareAddr                             { return net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1} }
func (unplugged) ListenUnconfigured(uint16) (net.PacketConn, error) { return nil, errUnplugged }
func (unplugged) ListenUDP(uint16) (net.PacketConn, error)          { return nil, errUnplugged }
func (unplugged) SetAddress(netip.Prefix, netip.Addr) error         { return nil }
func (unplugged) SetIPv6(netip.Prefix) error                        { return nil }
func (unplugged) ListenUDPIPv6(uint16, ...netip.Addr) (net.PacketConn, error) {
	return nil, errUnplugged
}
func (unplugged) DialContext(context.Context, string, string) (net.Conn, error) {
	return nil, errUnplugged
}

func newServer(t *testing.T, change func(*Config)) *Server {
	t.Helper()
	cfg := Config{
		Name: "s", NIC: unplugged{}, Retry: time.Millisecond, POST: time.Millisecond, BootTime: time.Millisecond, ShutdownTime: time.Millisecond,
		Disks: []DiskConfig{{Path: filepath.Join(t.TempDir(), "d.raw"), Serial: "D", SizeBytes: minDisk}},
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *Server) count(kind EventKind) int {
	n := 0
	for _, e := range s.Events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func waitFor(t *testing.T, s *Server, what string, done func() bool) {
	t.Helper()
	explain := func() string { return fmt.Sprintf("events: %+v", s.Events()) }
	eventually.Wait{Interval: time.Millisecond, Explain: explain}.Until(t, what, eventually.Holds(done))
}

// bootCode makes the first disk bootable.
func bootCode(t *testing.T, s *Server) {
	t.Helper()
	dev, err := s.disks[0].open(t.Context())
	must(t, err)
	_, err = dev.WriteAt([]byte{0x55, 0xaa}, 510)
	must(t, err)
	must(t, dev.Close())
}

func mark(t *testing.T, s *Server, m agentapi.Marker) {
	t.Helper()
	dev, err := s.disks[0].open(t.Context())
	must(t, err)
	must(t, marker.Write(dev, m))
	must(t, dev.Close())
}

func TestBootOrder(t *testing.T) {
	for _, tc := range []struct {
		name  string
		boot  bmc.Boot
		order []Device
		want  []string
	}{
		{"default order", bmc.Boot{}, nil, []string{"Network, UEFI", "Disk, UEFI"}},
		{"disk first", bmc.Boot{}, []Device{LocalDisk}, []string{"Disk, UEFI"}},
		{"override: disk", bmc.Boot{Enabled: bmc.Once, Target: bmc.TargetDisk, Mode: bmc.Legacy}, nil, []string{"Disk, Legacy"}},
		{"override: network, falls through", bmc.Boot{Enabled: bmc.Once, Target: bmc.TargetPXE}, []Device{LocalDisk}, []string{"Network, UEFI", "Disk, UEFI"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newServer(t, func(c *Config) { c.BootOrder = tc.order })
			bootCode(t, s)
			s.SetBoot(tc.boot)
			must(t, s.Power(t.Context(), bmc.On))
			waitFor(t, s, "the system", func() bool { return s.count(EventSystem) > 0 })
			var got []string
			for _, e := range s.Events() {
				if e.Kind == EventBootFrom {
					got = append(got, e.Detail)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("boots (-want +got):\n%s", diff)
			}
			if b := s.Boot(); b.Enabled != bmc.Disabled {
				t.Errorf("override %+v is not used up", b)
			}
		})
	}
}

func TestNothingToBoot(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *Server){
		"empty disk": func(*testing.T, *Server) {},
		"incomplete install": func(t *testing.T, s *Server) {
			bootCode(t, s)
			mark(t, s, agentapi.Marker{InstanceID: "i", Attempt: 1})
		},
		"disk removed": func(t *testing.T, s *Server) { bootCode(t, s); must(t, os.Remove(s.disks[0].Path())) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, nil)
			change(t, s)
			must(t, s.Power(t.Context(), bmc.On))
			waitFor(t, s, "the third attempt", func() bool { return s.count(EventPOST) >= 3 })
			if s.count(EventSystem) > 0 || !s.Powered() {
				t.Errorf("booted or powered off: %+v", s.Events())
			}
		})
	}
}

func TestPowerButton(t *testing.T) {
	s := newServer(t, nil)
	bootCode(t, s)
	must(t, s.Power(t.Context(), bmc.Shutdown)) // has no effect
	must(t, s.Power(t.Context(), bmc.On))
	must(t, s.Power(t.Context(), bmc.On)) // has no effect
	waitFor(t, s, "the system", func() bool { return s.count(EventSystem) == 1 })
	must(t, s.Power(t.Context(), bmc.Reboot))
	waitFor(t, s, "the system again", func() bool { return s.count(EventSystem) == 2 })
	must(t, s.Power(t.Context(), bmc.Reset))
	waitFor(t, s, "the system once more", func() bool { return s.count(EventSystem) == 3 })
	must(t, s.Power(t.Context(), bmc.Shutdown))
	waitFor(t, s, "power off", func() bool { return !s.Powered() })
	must(t, s.Power(t.Context(), bmc.Reset)) // has no effect
	if s.Powered() || s.count(EventPowerOn) != 2 {
		t.Errorf("powered %v after %d power-ons, want off and 2", s.Powered(), s.count(EventPowerOn))
	}
	if err := s.Power(t.Context(), "Levitate"); err == nil {
		t.Error("no error for an unknown action")
	}
}

func TestIgnoreShutdown(t *testing.T) {
	s := newServer(t, func(c *Config) { c.IgnoreShutdown = true })
	bootCode(t, s)
	must(t, s.Power(t.Context(), bmc.On))
	waitFor(t, s, "the system", func() bool { return s.count(EventSystem) == 1 })
	must(t, s.Power(t.Context(), bmc.Shutdown))
	waitFor(t, s, "the press of the button", func() bool { return s.count(EventShutdownIgnored) == 1 })
	if !s.Powered() {
		t.Error("the system shut down")
	}
	must(t, s.Power(t.Context(), bmc.Off))
	if s.Powered() {
		t.Error("on after the power was cut")
	}
}

func TestDiskLog(t *testing.T) {
	s := newServer(t, nil)
	d := s.disks[0]
	first := agentapi.Marker{InstanceID: "a", Attempt: 1}
	done := first
	done.Complete = true
	second := agentapi.Marker{InstanceID: "b", Attempt: 3, Complete: true}
	mark(t, s, first)
	mark(t, s, first) // started again after a power cut
	mark(t, s, done)
	dev, err := d.open(t.Context())
	must(t, err)
	must(t, dev.Zero(0, 2<<20))
	must(t, dev.Close())
	mark(t, s, second)
	mark(t, s, second)
	dev, err = d.open(t.Context())
	must(t, err)
	_, err = dev.WriteAt([]byte("xx"), agentapi.MarkerOffset+40)
	must(t, err)
	must(t, dev.Close())

	var got []DiskEventKind
	for _, e := range d.Log() {
		got = append(got, e.Kind)
	}
	want := []DiskEventKind{InstallBegun, InstallBegun, InstallComplete, MarkerRemoved, InstallComplete, InstallComplete, MarkerDamaged}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[Install]int{{"a", 1}: 1, {"b", 3}: 2}, d.CompleteWrites()); diff != "" {
		t.Errorf("complete writes (-want +got):\n%s", diff)
	}
	if w, z := d.BytesWritten(); d.Wipes() != 1 || w != 5*agentapi.MarkerSize+2 || z != 2<<20 {
		t.Errorf("%d wipes, %d bytes written, %d zeroed", d.Wipes(), w, z)
	}
}

func TestDiskWithoutPowerIgnoresWrites(t *testing.T) {
	s := newServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	dev, err := s.disks[0].open(ctx)
	must(t, err)
	cancel()
	if _, err := dev.WriteAt([]byte("x"), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("WriteAt: %v", err)
	}
	if err := dev.Zero(0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Zero: %v", err)
	}
	must(t, dev.Close())
	if w, z := s.disks[0].BytesWritten(); w+z != 0 {
		t.Errorf("%d bytes", w+z)
	}
}

func TestDiskOutlivesItsServer(t *testing.T) {
	s := newServer(t, nil)
	m := agentapi.Marker{InstanceID: "a", Attempt: 1, Complete: true}
	mark(t, s, m)
	must(t, s.disks[0].writeSeed(t.Context(), diskSeed{UserData: "old secret", MetaData: "instance-id: a"}))
	must(t, s.disks[0].writeSeed(t.Context(), diskSeed{MetaData: "instance-id: a"}))
	again, err := New(Config{Name: "s", NIC: unplugged{}, Disks: []DiskConfig{s.disks[0].cfg}})
	must(t, err)
	if diff := cmp.Diff(&m, again.disks[0].describe().Marker); diff != "" {
		t.Errorf("marker (-want +got):\n%s", diff)
	}
	seed, err := again.disks[0].readSeed(t.Context())
	if err != nil || seed.MetaData != "instance-id: a" || seed.UserData != "" {
		t.Errorf("seed %+v, %v", seed, err)
	}
	content, err := os.ReadFile(s.disks[0].Path())
	must(t, err)
	for i := range content {
		if content[i] == 'o' && i+10 < len(content) && string(content[i:i+10]) == "old secret" {
			t.Error("the old seed is on the disk")
		}
	}
}

// TestMetadataCleaningRemovesTheSeed covers disk sizes with and without alignment.
func TestMetadataCleaningRemovesTheSeed(t *testing.T) {
	for _, size := range []int64{minDisk, 9<<20 + 512} {
		s := newServer(t, func(c *Config) {
			c.Disks = []DiskConfig{{Path: filepath.Join(t.TempDir(), "d"), Serial: "D", SizeBytes: size}}
		})
		d := s.disks[0]
		must(t, d.writeSeed(t.Context(), diskSeed{UserData: "old secret", MetaData: "instance-id: a"}))
		dev, err := d.open(t.Context())
		must(t, err)
		_, err = wipe.Metadata(t.Context(), dev)
		must(t, errors.Join(err, dev.Close()))
		if seed, err := d.readSeed(t.Context()); !errors.Is(err, errNoSeed) {
			t.Errorf("%d bytes: seed %+v, %v", size, seed, err)
		}
		content, err := os.ReadFile(d.Path())
		must(t, err)
		if bytes.Contains(content, []byte("old secret")) {
			t.Errorf("%d bytes: the seed is on the disk", size)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no NIC":       {},
		"small disk":   {NIC: unplugged{}, Disks: []DiskConfig{{Path: filepath.Join(t.TempDir(), "d"), SizeBytes: 512}}},
		"no directory": {NIC: unplugged{}, Disks: []DiskConfig{{Path: filepath.Join(t.TempDir(), "no", "d"), SizeBytes: minDisk}}},
	} {
		if _, err := New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestPace shows that each write of the agent calls Pace and fails after the end of ctx.
func TestPace(t *testing.T) {
	var steps []Step
	ctx, cancel := context.WithCancel(t.Context())
	s := newServer(t, func(c *Config) {
		c.Pace = func(_ context.Context, step Step) {
			if steps = append(steps, step); len(steps) == 3 {
				cancel()
			}
		}
	})
	dev, err := (*agentDisks)(s).Open(ctx, agentapi.Disk{Name: s.disks[0].name})
	must(t, err)
	defer func() { _ = dev.Close() }()
	_, err = dev.WriteAt(make([]byte, 10), 0)
	must(t, err)
	must(t, dev.Zero(0, 20))
	if _, err := dev.WriteAt(make([]byte, 30), 0); err == nil {
		t.Error("a write after the end of ctx")
	}
	written, zeroed := s.disks[0].BytesWritten()
	if want := []Step{StepWrite, StepWrite, StepWrite}; written != 10 || zeroed != 20 || !slices.Equal(steps, want) {
		t.Errorf("%d bytes written, %d zeroed, steps %q", written, zeroed, steps)
	}
}
