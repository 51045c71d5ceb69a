// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

// TestMatrixPyghmi switches a server and sets its boot device by pyghmi's BMC, on which
// VirtualBMC is built. It has too few commands for the suite of all drivers.
func TestMatrixPyghmi(t *testing.T) {
	if _, err := os.Stat(labipmi.PyghmiModule); err != nil {
		t.Skip("pyghmi is not installed; hack/packages.sh installs it")
	}
	p, err := labipmi.StartPyghmi(username, "canary-20-bytes-long")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	target := bmc.Target{Address: p.Address(), Username: username, Password: "canary-20-bytes-long"}
	conn, err := ipmi.Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	state := func(want bmc.PowerState) {
		t.Helper()
		if got, err := conn.PowerState(t.Context()); err != nil || got != want {
			t.Errorf("power %s, %v; want %s", got, err, want)
		}
	}
	state(bmc.PowerOff)
	for _, action := range []bmc.PowerAction{bmc.ActionOn, bmc.ActionForceOff} {
		if err := conn.SetPower(t.Context(), action); err != nil {
			t.Errorf("%s: %v", action, err)
		}
		state(map[bmc.PowerAction]bmc.PowerState{bmc.ActionOn: bmc.PowerOn, bmc.ActionForceOff: bmc.PowerOff}[action])
	}
	for _, want := range []string{"power on", "power off"} {
		if !slices.Contains(p.Log(), want) {
			t.Errorf("the server was not sent %q: %q", want, p.Log())
		}
	}
	if err := conn.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
	wrong := target
	wrong.Password = "another"
	_, err = ipmi.Dial(t.Context(), wrong)
	wantError(t, err, bmc.ErrUnauthorized)
}
