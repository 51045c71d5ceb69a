// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/bmc"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/simulated"
)

// patience bounds what would otherwise hang; nothing is expected to take it.
const patience = 4 * time.Minute

// waitFor waits for something that has to come.
func waitFor(t *testing.T, u *simulated.Unit, what string, done func() bool) {
	t.Helper()
	eventually.Wait{Limit: patience, Interval: 5 * time.Millisecond, Explain: func() string {
		var events strings.Builder
		for _, e := range u.Server.Events() {
			_, _ = fmt.Fprintf(&events, "%s %s %s\n", e.At.Format("05.000"), e.Kind, e.Detail)
		}
		return events.String()
	}}.Until(t, u.Serial+": "+what, eventually.Holds(done))
}

func count(u *simulated.Unit, kind server.EventKind) int {
	n := 0
	for _, e := range u.Server.Events() {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func scrubbed(u *simulated.Unit) func() bool {
	return func() bool { return count(u, server.EventScrubbed) > 0 }
}

// wantInstalled checks the disks after an install and a first boot.
func wantInstalled(t *testing.T, r *simulated.Rack, u *simulated.Unit, install server.Install) {
	t.Helper()
	root, data := u.Server.Disks()[0], u.Server.Disks()[1]
	if diff := cmp.Diff(map[server.Install]int{install: 1}, root.CompleteWrites()); diff != "" {
		t.Errorf("%s: complete writes (-want +got):\n%s", u.Serial, diff)
	}
	content, err := os.ReadFile(root.Path())
	if err != nil {
		t.Fatal(err)
	}
	clear(content[agentapi.MarkerOffset : agentapi.MarkerOffset+agentapi.MarkerSize])
	if !bytes.Equal(content[:len(r.Image)], r.Image) {
		t.Errorf("%s: the disk does not hold the image", u.Serial)
	}
	for _, secret := range []string{simulated.Canary, "token."} {
		if bytes.Contains(content, []byte(secret)) {
			t.Errorf("%s: %q is on the disk after the first boot", u.Serial, secret)
		}
	}
	if w, z := data.BytesWritten(); w+z != 0 {
		t.Errorf("%s: the data disk was written: %d bytes", u.Serial, w+z)
	}
}

// TestLine installs and wipes one server by each kind of firmware.
func TestLine(t *testing.T) {
	for _, tc := range []struct {
		name string
		pxe  bool
		mode bmc.BootMode
	}{
		{"iPXE ROM, BIOS", false, bmc.ModeBIOS},
		{"iPXE ROM, UEFI", false, bmc.ModeUEFI},
		{"PXE ROM, BIOS", true, bmc.ModeBIOS},
		{"PXE ROM, UEFI", true, bmc.ModeUEFI},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := simulated.NewRack(t, simulated.Options{Change: func(_ int, c *server.Config) { c.PlainPXE = tc.pxe }})
			u := r.Units[0]
			must(t, r.Pool.Do(t.Context(), u.Target, func(ctx context.Context, c bmc.Conn) error {
				return c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE, Mode: tc.mode})
			}))
			r.Order(0, agentapi.Install, "instance-1", 1)
			r.NetworkBoot(t, 0)
			waitFor(t, u, "first boot", scrubbed(u))

			wantInstalled(t, r, u, server.Install{InstanceID: "instance-1", Attempt: 1})
			booted := r.Manager.Booted(u.Serial)
			if len(booted) != 1 || booted[0].InstanceID != "instance-1" || booted[0].Hostname != "node-"+u.Serial ||
				!cmp.Equal(booted[0].Addresses, []string{"192.168.1.0"}) {
				t.Errorf("booted: %+v", booted)
			}
			if got := r.Manager.Sessions(u.Serial)[0].Hardware.Firmware; got != string(tc.mode) {
				t.Errorf("agent was booted by %s, want %s", got, tc.mode)
			}
			if loaders := count(u, server.EventLoader); (loaders > 0) != tc.pxe {
				t.Errorf("%d loaders fetched by TFTP", loaders)
			}

			r.Order(0, agentapi.Clean, "instance-1", 1)
			r.NetworkBoot(t, 0)
			waitFor(t, u, "power off", func() bool { return !u.Server.Powered() })
			if n := u.Server.Disks()[0].Wipes(); n != 1 {
				t.Errorf("%d wipes, want 1", n)
			}
			if m := len(r.Manager.Reports(u.Serial)); m != 2 {
				t.Errorf("%d reports, want 2", m)
			}
		})
	}
}

// TestProvisionedServerNeedsNobody: after the install, a server restarts from its
// disk and reports no second time, and its system obeys the power button.
func TestProvisionedServerNeedsNobody(t *testing.T) {
	r := simulated.NewRack(t, simulated.Options{})
	u := r.Units[0]
	r.Order(0, agentapi.Install, "instance-1", 1)
	r.NetworkBoot(t, 0)
	waitFor(t, u, "first boot", scrubbed(u))
	systems := count(u, server.EventSystem)
	must(t, u.Server.Power(t.Context(), labbmc.Reboot))
	waitFor(t, u, "second boot", func() bool { return count(u, server.EventSystem) > systems })
	dhcps := count(u, server.EventDHCP)
	waitFor(t, u, "an address", func() bool { return count(u, server.EventDHCP) > dhcps-1 })
	must(t, r.Pool.Do(t.Context(), u.Target, func(ctx context.Context, c bmc.Conn) error {
		return c.SetPower(ctx, bmc.ActionGracefulOff)
	}))
	waitFor(t, u, "power off", func() bool { return !u.Server.Powered() })
	if n := len(r.Manager.Booted(u.Serial)); n != 1 {
		t.Errorf("%d reports of the booted system, want 1", n)
	}
	wantInstalled(t, r, u, server.Install{InstanceID: "instance-1", Attempt: 1})
}

// TestLostReplies: every answer of the manager is lost once; the line ends the same.
func TestLostReplies(t *testing.T) {
	r := simulated.NewRack(t, simulated.Options{})
	var mu sync.Mutex
	lost := map[string]bool{}
	r.Manager.Drop = func(path string) bool {
		mu.Lock()
		defer mu.Unlock()
		first := !lost[path]
		lost[path] = true
		return first
	}
	u := r.Units[0]
	r.Order(0, agentapi.Install, "instance-1", 1)
	r.NetworkBoot(t, 0)
	waitFor(t, u, "first boot", scrubbed(u))
	wantInstalled(t, r, u, server.Install{InstanceID: "instance-1", Attempt: 1})
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{agentapi.PathSession, agentapi.PathOrder, agentapi.PathBootstrap, agentapi.PathReport, agentapi.PathBooted} {
		if !lost[path] {
			t.Errorf("%s was never called", path)
		}
	}
}

// TestPowerCuts cuts the power at seeded moments of an install, each time starting
// it again by the network, as a host controller would: whatever is cut, the disk
// becomes complete exactly once, and a disk that is not is never booted.
func TestPowerCuts(t *testing.T) {
	r := simulated.NewRack(t, simulated.Options{})
	u := r.Units[0]
	r.Order(0, agentapi.Install, "instance-1", 1)
	rng := rand.New(rand.NewPCG(7, 7))
	for range 15 {
		r.NetworkBoot(t, 0)
		time.Sleep(time.Duration(rng.IntN(250)) * time.Millisecond)
		must(t, u.Server.Power(t.Context(), labbmc.Off))
		disk := u.Server.Disks()[0]
		w, z := disk.BytesWritten()
		time.Sleep(20 * time.Millisecond)
		if w2, z2 := disk.BytesWritten(); w2 != w || z2 != z {
			t.Fatalf("%d bytes were written after the power was cut", w2+z2-w-z)
		}
		if count(u, server.EventSystem) > 0 && disk.CompleteWrites()[server.Install{InstanceID: "instance-1", Attempt: 1}] == 0 {
			t.Fatal("half an install was booted")
		}
	}
	r.NetworkBoot(t, 0)
	waitFor(t, u, "first boot", scrubbed(u))
	wantInstalled(t, r, u, server.Install{InstanceID: "instance-1", Attempt: 1})
}

// TestManyServers installs many at once in one process.
func TestManyServers(t *testing.T) {
	r := simulated.NewRack(t, simulated.Options{Servers: manyServers, Change: func(_ int, c *server.Config) { c.HeadOnly = true }})
	start := time.Now()
	var wg sync.WaitGroup
	for i := range r.Units {
		r.Order(i, agentapi.Install, "instance-"+r.Units[i].Serial, 1)
		wg.Go(func() { r.NetworkBoot(t, i) })
	}
	wg.Wait()
	for _, u := range r.Units {
		waitFor(t, u, "first boot", scrubbed(u))
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d installs in %s, %d MiB from the system", manyServers, time.Since(start).Round(time.Millisecond), m.Sys>>20)
	for _, u := range r.Units {
		wantInstalled(t, r, u, server.Install{InstanceID: "instance-" + u.Serial, Attempt: 1})
		if n := u.BMC.PeakSessions(); n != 1 {
			t.Errorf("%s: %d sessions at once, want 1", u.Serial, n)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
