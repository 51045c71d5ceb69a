// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

// truth returns the values that both BMCs must report.
func truth(firmware, bmcUUID string) (bmc.Inventory, bmctest.Expectations) {
	s := system()
	inventory := bmc.Inventory{Identity: bmc.Identity{
		UUID: s.UUID, Serial: s.Serial, Manufacturer: s.Manufacturer, Model: s.Model, BMCFirmware: firmware, BMCUUID: bmcUUID,
	}}
	return inventory, bmctest.Expectations{
		Health: &bmc.HealthReport{Overall: bmc.HealthCritical, Components: []bmc.ComponentHealth{
			{Kind: "Temperature", Name: "CPU Temp", State: bmc.HealthOK, Reading: "42 degrees C"},
			{Kind: "Fan", Name: "FAN 1", State: bmc.HealthCritical, Reading: "120 RPM"},
		}},
		Echo: true, NewPassword: "rotated-20-bytes-xyz", LongPassword: "longer-than-20-bytes-", BMCVersion: firmware,
	}
}

// simulated adapts go-ipmi's simulator to the suite.
type simulated struct {
	*rig
	bmctest.NoExtras
}

func (s simulated) Powered() bool { return s.bench.Powered() }
func (s simulated) Restart()      { _ = s.bench.Power(context.Background(), labbmc.Reset) }

func (s simulated) Boots() []bmc.BootTarget {
	var boots []bmc.BootTarget
	for _, b := range s.bench.Boots() {
		boots = append(boots, map[labbmc.Target]bmc.BootTarget{
			labbmc.TargetNone: bmc.BootNone, labbmc.TargetPXE: bmc.BootPXE, labbmc.TargetDisk: bmc.BootDisk,
			"Cd": bmc.BootCD, "BiosSetup": bmc.BootSetup,
		}[b])
	}
	return boots
}

func goIPMIRig(change func(*labipmi.Config)) func(t *testing.T) bmctest.Rig {
	return func(t *testing.T) bmctest.Rig {
		r := newRig(t, change)
		s := system()
		inventory, beyond := truth(s.BMCFirmware, s.BMCUUID)
		beyond.Reset = func() bool { return r.Resets() == 1 }
		beyond.Lit = r.Lit
		beyond.AddEvents = func(_ *testing.T, n int) {
			for i := range n { // a fan below its lower critical limit
				r.AddEvent(4, 4, 2, time.Unix(0x60000000+int64(i), 0))
			}
		}
		return bmctest.Rig{
			Dial: ipmi.Dial, Target: r.target, Server: simulated{rig: r}, Inventory: inventory, Expect: beyond,
			Lacks: []bmc.PowerAction{bmc.ActionGracefulRestart},
		}
	}
}

// TestMatrixGoIPMI runs the matrix on go-ipmi's simulator, with cipher suite 17.
func TestMatrixGoIPMI(t *testing.T) {
	bmctest.Matrix(t, bmctest.DriverIPMI, bmctest.GoIPMI, goIPMIRig(nil))
}

// TestSuite3 runs the suite on a BMC with only cipher suite 3.
func TestSuite3(t *testing.T) {
	bmctest.Run(t, goIPMIRig(func(c *labipmi.Config) { c.OnlySuite3 = true }))
}

// openIPMI adapts ipmi_sim to the suite. It does not report its sessions; see TestSimSessions.
type openIPMI struct {
	*labipmi.Sim
	bmctest.NoExtras
}

func (s openIPMI) Restart()      {}
func (s openIPMI) Sessions() int { return 0 }

func (s openIPMI) Boots() []bmc.BootTarget {
	var boots []bmc.BootTarget
	for _, b := range s.Sim.Boots() {
		boots = append(boots, map[string]bmc.BootTarget{"default": bmc.BootNone, "pxe": bmc.BootPXE}[b])
	}
	return boots
}

func simRig(t *testing.T) bmctest.Rig {
	sim, target := newSim(t, &serial{})
	inventory, beyond := truth("1.02", "")
	beyond.NewPassword = "sixteen-bytes-ab" // the longest possible one: see TestSimLongPassword
	beyond.AddEvents = func(t *testing.T, n int) { addEvents(t, target, n) }
	return bmctest.Rig{
		Dial: ipmi.Dial, Target: target, Server: openIPMI{Sim: sim}, Inventory: inventory, Expect: beyond,
		Lacks: []bmc.PowerAction{bmc.ActionGracefulRestart},
	}
}

// addEvents adds entries with ipmitool (Add SEL Entry, §31.6): a fan below its limit, a second
// apart.
func addEvents(t *testing.T, target bmc.Target, n int) {
	t.Helper()
	u, err := url.Parse(target.Address)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		args := []string{"-I", "lanplus", "-C", "3", "-H", host, "-p", port, "-U", target.Username, "-P", target.Password.Reveal(),
			"raw", "0x0a", "0x44", "0", "0", "2", fmt.Sprint(i), "0", "0", "0x60", "0x20", "0", "4", "4", "2", "1", "0x52", "0", "0"}
		if out, err := exec.CommandContext(t.Context(), "ipmitool", args...).CombinedOutput(); err != nil {
			t.Fatalf("ipmitool: %v: %s", err, out)
		}
	}
}

// TestMatrixSim runs the matrix on ipmi_sim.
func TestMatrixSim(t *testing.T) {
	bmctest.Matrix(t, bmctest.DriverIPMI, bmctest.IPMISim, simRig)
}

// TestSimBoot shows that the driver reports the boot flags that ipmi_sim loses.
func TestSimBoot(t *testing.T) {
	sim, target := newSim(t, nil)
	conn, err := ipmi.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if err := conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}); !isNotApplied(err) {
		t.Errorf("SetBootOverride: %v, want ErrNotApplied", err)
	}
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Fatal(err)
	}
	if got := sim.Boots(); len(got) != 1 || got[0] != "pxe" {
		t.Errorf("boots %v, want one from pxe", got)
	}
}

// TestSimSessions shows that neither sessions nor refused logins leak: ipmi_sim has ten sessions
// per user.
func TestSimSessions(t *testing.T) {
	_, target := newSim(t, nil)
	wrong := target
	wrong.Password += "x"
	for i := range 50 {
		if _, err := ipmi.Dial(t.Context(), wrong); !isUnauthorized(err) {
			t.Fatalf("dial %d with a wrong password: %v", i, err)
		}
		conn, err := ipmi.Dial(t.Context(), target)
		if err != nil {
			t.Fatalf("dial %d: %v", i, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := conn.Close(ctx); err != nil {
			t.Fatalf("close %d: %v", i, err)
		}
	}
}

// TestSimLongPassword shows that the account stays usable although ipmi_sim accepts 20 bytes and
// stores 16.
func TestSimLongPassword(t *testing.T) {
	_, target := newSim(t, nil)
	conn, err := ipmi.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	const long = "canary-long-password"
	err = conn.SetPassword(t.Context(), long)
	wantError(t, err, bmc.ErrNotApplied)
	if strings.Contains(err.Error(), long[:16]) {
		t.Errorf("error shows the password: %v", err)
	}
	again, err := ipmi.Dial(t.Context(), target)
	if err != nil {
		t.Fatalf("the old password: %v", err)
	}
	if err := again.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
