// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/ipmi"
	"github.com/ingot-metal/ingot/test/needs"
)

const username, password = "admin", "secret"

func system() bmc.System {
	return bmc.System{
		UUID: "9f3b8a52-0c1d-4e6f-8a7b-112233445566", Serial: "SER123", Manufacturer: "Lab", Model: "Emulated 1",
		BMCFirmware: "1.02", BMCUUID: "00000000-1111-4222-8333-444444444444",
	}
}

func start(t *testing.T, change func(*ipmi.Config)) (*ipmi.BMC, *bmc.Bench) {
	t.Helper()
	bench := &bmc.Bench{}
	cfg := ipmi.Config{Machine: bench, Username: username, Password: password, System: system()}
	if change != nil {
		change(&cfg)
	}
	b, err := ipmi.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b, bench
}

// tool runs ipmitool, an independent client, against a BMC.
func tool(t *testing.T, address, suite string, args ...string) (string, error) {
	t.Helper()
	needs.Program(t, "ipmitool")
	host, port, err := net.SplitHostPort(strings.TrimPrefix(address, "ipmi://"))
	if err != nil {
		t.Fatal(err)
	}
	all := append([]string{"-I", "lanplus", "-N", "1", "-R", "2", "-C", suite, "-H", host, "-p", port, "-U", username, "-P", password}, args...)
	out, err := exec.CommandContext(t.Context(), "ipmitool", all...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// TestTool shows that ipmitool works with the BMC and both cipher suites.
func TestTool(t *testing.T) {
	for _, suite := range []string{"3", "17"} {
		t.Run(suite, func(t *testing.T) {
			b, bench := start(t, func(c *ipmi.Config) {
				c.Sensors = []ipmi.Sensor{{Number: 1, Type: 1, Unit: 1, Name: "CPU Temp", Value: 42}}
			})
			b.AddEvent(4, 4, 2, time.Now())
			for _, step := range []struct {
				args []string
				want string
			}{
				{[]string{"chassis", "power", "status"}, "Chassis Power is off"},
				{[]string{"chassis", "bootdev", "pxe", "options=efiboot"}, "Set Boot Device to pxe"},
				{[]string{"chassis", "bootparam", "get", "5"}, "Boot Device Selector : Force PXE"},
				{[]string{"chassis", "power", "on"}, "Up/On"},
				{[]string{"chassis", "power", "status"}, "Chassis Power is on"},
				{[]string{"chassis", "power", "reset"}, "Reset"},
				{[]string{"fru", "print", "0"}, "SER123"},
				{[]string{"sdr", "list"}, "42 degrees C"},
				{[]string{"mc", "info"}, "1.02"},
				{[]string{"raw", "6", "0x37"}, "52 8a 3b 9f 1d 0c 6f 4e"},
				{[]string{"chassis", "identify", "force"}, "indefinite"},
				{[]string{"sel", "info"}, "Entries          : 1"},
				{[]string{"sel", "list"}, "Fan #0x04 | Lower Critical going low"},
				{[]string{"sel", "clear"}, "Clearing SEL"},
				{[]string{"sel", "info"}, "Entries          : 0"},
			} {
				got, err := tool(t, b.Address(), suite, step.args...)
				if err != nil || !strings.Contains(got, step.want) {
					t.Errorf("%v: %v\n%s\nwant %q", step.args, err, got, step.want)
				}
			}
			if diff := cmp.Diff([]bmc.Target{bmc.TargetPXE, bmc.TargetNone}, bench.Boots()); diff != "" {
				t.Errorf("boots (-want +got):\n%s", diff)
			}
			if !b.Lit() || b.Sessions() != 0 {
				t.Errorf("lit %v, %d sessions", b.Lit(), b.Sessions())
			}
		})
	}
}

// TestToolFaults shows the effect of the faults with ipmitool.
func TestToolFaults(t *testing.T) {
	status := []string{"chassis", "power", "status"}
	for _, tc := range []struct {
		name   string
		config func(*ipmi.Config)
		faults ipmi.Faults
		suite  string
		args   []string
		want   string
		fails  bool
	}{
		{"silent", nil, ipmi.Faults{Silent: true}, "17", status, "Unable to establish", true},
		{"lost replies", nil, ipmi.Faults{LoseReplies: true}, "17", status, "Unable to establish", true},
		{"packet loss", nil, ipmi.Faults{DropEvery: 4}, "17", status, "is off", false},
		{"wrong power state", nil, ipmi.Faults{PowerLie: bmc.Opposite}, "17", status, "is on", false},
		{"busy", nil, ipmi.Faults{Code: 0xc0}, "17", status, "Node busy", true},
		{"busy for another command", nil, ipmi.Faults{Code: 0xc0, Match: func(netFn, _ byte) bool { return netFn == 0x0a }}, "17", status, "is off", false},
		{"no suite 17", func(c *ipmi.Config) { c.OnlySuite3 = true }, ipmi.Faults{}, "17", status, "", true},
		{"suite 3", func(c *ipmi.Config) { c.OnlySuite3 = true }, ipmi.Faults{}, "3", status, "is off", false},
		{"wrong password", func(c *ipmi.Config) { c.Password = "other" }, ipmi.Faults{}, "17", status, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel() // ipmitool waits long
			b, _ := start(t, tc.config)
			b.SetFaults(tc.faults)
			got, err := tool(t, b.Address(), tc.suite, tc.args...)
			if (err != nil) != tc.fails || !strings.Contains(got, tc.want) {
				t.Errorf("%v\n%s\nwant %q, failure %v", err, got, tc.want, tc.fails)
			}
		})
	}
}

// TestPowerCycle shows that a power cycle does nothing if the server is off.
func TestPowerCycle(t *testing.T) {
	b, bench := start(t, nil)
	if _, err := tool(t, b.Address(), "17", "chassis", "power", "cycle"); err == nil && bench.Powered() {
		t.Error("a power cycle powered the server on")
	}
	if err := bench.Power(context.Background(), bmc.On); err != nil {
		t.Fatal(err)
	}
	if out, err := tool(t, b.Address(), "17", "chassis", "power", "cycle"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n := len(bench.Boots()); n != 2 || !bench.Powered() {
		t.Errorf("%d boots, powered %v", n, bench.Powered())
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]ipmi.Config{
		"no machine":   {Username: username, Password: password},
		"no password":  {Machine: &bmc.Bench{}, Username: username},
		"bad UUID":     {Machine: &bmc.Bench{}, Username: username, Password: password, System: bmc.System{UUID: "x"}},
		"bad firmware": {Machine: &bmc.Bench{}, Username: username, Password: password, System: bmc.System{BMCFirmware: "new"}},
	} {
		t.Run(name, func(t *testing.T) {
			if b, err := ipmi.Start(cfg); err == nil {
				_ = b.Close()
				t.Error("it started")
			}
		})
	}
}

// TestSim shows that ipmi_sim starts, follows its configuration, and stops.
func TestSim(t *testing.T) {
	needs.Program(t, ipmi.SimProgram)
	sim, err := ipmi.StartSim(ipmi.SimConfig{Dir: t.TempDir(), Username: username, Password: password, System: system()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sim.Close() }()
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"chassis", "bootdev", "pxe"}, "pxe"},
		{[]string{"chassis", "power", "on"}, "Up/On"},
		{[]string{"chassis", "power", "reset"}, "Reset"},
		{[]string{"fru", "print", "0"}, "SER123"},
		{[]string{"chassis", "power", "soft"}, "Soft"},
	} {
		if got, err := tool(t, sim.Address(), "3", step.args...); err != nil || !strings.Contains(got, step.want) {
			t.Errorf("%v: %v\n%s\nwant %q", step.args, err, got, step.want)
		}
	}
	if diff := cmp.Diff([]string{"pxe", "default"}, sim.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"set boot pxe", "set power 1", "set reset 1", "set shutdown 1"}, sim.Log()); diff != "" || sim.Powered() {
		t.Errorf("powered %v, log (-want +got):\n%s", sim.Powered(), diff)
	}
	if err := sim.Close(); err != nil {
		t.Error(err)
	}
	if got, err := tool(t, sim.Address(), "3", "chassis", "power", "status"); err == nil {
		t.Errorf("a closed BMC answers: %s", got)
	}
}

func TestSimErrors(t *testing.T) {
	if _, err := ipmi.StartSim(ipmi.SimConfig{Dir: t.TempDir(), Username: username, Password: "a\"b"}); err == nil {
		t.Error("no error for a password that its configuration cannot contain")
	}
	if _, err := ipmi.StartSim(ipmi.SimConfig{Dir: t.TempDir() + "/none", Username: username, Password: password}); err == nil {
		t.Error("no error for a missing directory")
	}
}
