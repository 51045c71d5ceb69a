// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// The message about the end of an order does not claim a report of an agent that was silent.
func TestEndedMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		order infrav1.HostOrder
		want  string
	}{
		"done":       {infrav1.HostOrder{Result: &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded}}, "The agent has finished the install."},
		"no word":    {infrav1.HostOrder{Result: &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: infrav1.ReasonNoAgentContact}}, "The install failed (NoAgentContact)."},
		"two agents": {infrav1.HostOrder{Revoked: new(true)}, "Two agents used the same token, so Ingot trusts neither."},
	} {
		t.Run(name, func(t *testing.T) {
			tc.order.Kind = infrav1.OrderInstall
			if _, got := sayEnded(&input{order: &tc.order}); got != tc.want {
				t.Errorf("said %q, want %q", got, tc.want)
			}
		})
	}
}

// The message during the agent's work mentions a requested power-off.
func TestAgentMessageMentionsPowerOff(t *testing.T) {
	for intent, want := range map[infrav1.PowerIntent]bool{infrav1.PowerIntentOff: true, infrav1.PowerIntentOn: false, "": false} {
		for name, contact := range map[string]time.Duration{"order/running": time.Minute, "order/forgotten": 24 * time.Hour} {
			s := newScene(func(s *scene) {
				s.host.Spec.Order, s.host.Spec.Power = orderOf(infrav1.OrderInspect), intent
				s.obs.Power, s.obs.LastContact = infrav1.PowerStateOn, day().Add(-contact)
			})
			d := Next(s.host, s.obs, DefaultPolicy())
			if d.Rule != name || strings.Contains(d.Message, "before the power-off of spec.power") != want {
				t.Errorf("power %q: %s: %s", intent, d.Rule, d.Message)
			}
		}
	}
}

// The message in maintenance has what Ingot still does to the host.
func TestMaintenanceMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		claimed, deleting bool
		says, not         string
	}{
		"free":                 {false, false, "Ingot does nothing to it", "powers it off"},
		"claimed":              {true, false, "powers it off if it comes on", "deletion ends"},
		"claimed, and deleted": {true, true, "deletion ends once the disks are clean", "does nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Maintenance, s.obs.Deleting = new(true), tc.deleting
				if tc.claimed {
					s.host.Spec.Claim = fencedClaim()
				}
			})
			d := Next(s.host, s.obs, DefaultPolicy())
			if d.Rule != "maintenance" || !strings.Contains(d.Message, tc.says) || strings.Contains(d.Message, tc.not) || !strings.Contains(d.Message, "Unset spec.maintenance") {
				t.Errorf("%s: %q", d.Rule, d.Message)
			}
		})
	}
}

// The message of an installed server that is off explains why it stays off.
func TestProvisionedMessage(t *testing.T) {
	const installed = "Installed for IngotMachine m."
	for name, tc := range map[string]struct {
		power  infrav1.PowerState
		intent infrav1.PowerIntent
		want   string
		bench  bool
	}{
		"in maintenance": {infrav1.PowerStateOff, infrav1.PowerIntentOn, installed + " Powered off, and stays off while spec.maintenance is set.", true},
		"on":             {infrav1.PowerStateOn, "", installed, false},
		"off":            {infrav1.PowerStateOff, "", installed + " Off. Ingot does not power it on by itself. Set spec.power to On, or let a MachineHealthCheck remediate it.", false},
		"off, asked":     {infrav1.PowerStateOff, infrav1.PowerIntentOff, installed + " Powered off, as spec.power requests.", false},
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
