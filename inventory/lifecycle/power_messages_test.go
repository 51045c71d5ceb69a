// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// What people are told when a server is switched off after its order: an agent that
// was never heard has reported nothing.
func TestSayEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		order infrav1.HostOrder
		want  string
	}{
		"done":       {infrav1.HostOrder{Result: &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded}}, "the agent has reported the end of its order to install"},
		"no word":    {infrav1.HostOrder{Result: &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: infrav1.ReasonNoAgentContact}}, "the order to install has failed (NoAgentContact)"},
		"two agents": {infrav1.HostOrder{Revoked: new(true)}, "two agents came with the same token, so neither is trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.order.Kind = infrav1.OrderInstall
			if _, got := sayEnded(&input{order: &tc.order}); got != tc.want {
				t.Errorf("said %q, want %q", got, tc.want)
			}
		})
	}
}

// A host that a person wants off stays on while its agent works: that is said.
func TestAwaitedTellsOfPowerOff(t *testing.T) {
	for intent, want := range map[infrav1.PowerIntent]bool{infrav1.PowerIntentOff: true, infrav1.PowerIntentOn: false, "": false} {
		for name, contact := range map[string]time.Duration{"order/running": time.Minute, "order/forgotten": 24 * time.Hour} {
			s := newScene(func(s *scene) {
				s.host.Spec.Order, s.host.Spec.Power = orderOf(infrav1.OrderInspect), intent
				s.obs.Power, s.obs.LastContact = infrav1.PowerStateOn, day().Add(-contact)
			})
			d := Next(s.host, s.obs, DefaultPolicy())
			if d.Rule != name || strings.Contains(d.Message, "spec.power asks for Off") != want {
				t.Errorf("power %q: %s: %s", intent, d.Rule, d.Message)
			}
		}
	}
}

// Of a host in maintenance people are told what Ingot does not do, and what it does all the
// same.
func TestSayMaintenance(t *testing.T) {
	for name, tc := range map[string]struct {
		claimed, deleting bool
		says, not         string
	}{
		"free":                 {false, false, "Ingot does nothing to the host", "switches it off"},
		"claimed":              {true, false, "switches it off where it comes on", "the object goes"},
		"claimed, and deleted": {true, true, "the object goes once the disks are clean", "does nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Maintenance, s.obs.Deleting = new(true), tc.deleting
				if tc.claimed {
					s.host.Spec.Claim = fencedClaim()
				}
			})
			d := Next(s.host, s.obs, DefaultPolicy())
			if d.Rule != "maintenance" || !strings.Contains(d.Message, tc.says) || strings.Contains(d.Message, tc.not) || !strings.Contains(d.Message, "unset it") {
				t.Errorf("%s: %q", d.Rule, d.Message)
			}
		})
	}
}

// TestSayProvisioned: whoever finds an installed server off is told why it stays so.
func TestSayProvisioned(t *testing.T) {
	const installed = "installed for IngotMachine m"
	for name, tc := range map[string]struct {
		power  infrav1.PowerState
		intent infrav1.PowerIntent
		want   string
		bench  bool
	}{
		"in maintenance": {infrav1.PowerStateOff, infrav1.PowerIntentOn, installed + "; off, and nobody switches it on while spec.maintenance is set", true},
		"on":             {infrav1.PowerStateOn, "", installed, false},
		"off":            {infrav1.PowerStateOff, "", installed + "; the server is off, and Ingot does not switch on unasked what is in use: set spec.power to On, or let the remediation of a MachineHealthCheck power-cycle it", false},
		"off, asked":     {infrav1.PowerStateOff, infrav1.PowerIntentOff, installed + "; off, as spec.power says", false},
		"nobody knows":   {infrav1.PowerStateUnknown, "", installed, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Claim, s.obs.Power, s.host.Spec.Power = claimOf(infrav1.ClaimProvisioned), tc.power, tc.intent
				s.host.Spec.Claim.MachineRef.Name = "m"
				s.host.Spec.Maintenance = &tc.bench
			})
			in := input{host: s.host, obs: s.obs, claim: s.host.Spec.Claim}
			if got := sayProvisioned(&in); got.Message != tc.want {
				t.Errorf("%q, want %q", got.Message, tc.want)
			}
		})
	}
}
