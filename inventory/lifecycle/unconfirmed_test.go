// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// restoredHost is a host as a backup has it, and what a manager sees of it that began to
// watch a quarter of an hour ago: a server that is on and silent.
func restoredHost(change func(*infrav1.IngotHost)) (*infrav1.IngotHost, Observation) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	old := metav1.NewTime(now.Add(-24 * time.Hour))
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h", UID: "u", CreationTimestamp: old}}
	host.Spec = infrav1.IngotHostSpec{
		BMC: &infrav1.BMC{Address: "redfish://bmc"}, BootMACAddress: "52:54:00:00:00:01", NetworkRef: infrav1.NetworkReference{Name: "net"},
		Record: &infrav1.HostRecord{InspectedTime: old},
	}
	change(host)
	return host, Observation{
		Now: now, NewID: "new", Power: infrav1.PowerStateOn, Machine: MachineExists, AddressRecorded: true,
		LastReset: old.Time, LastContact: old.Time, LedgerSince: now.Add(-15 * time.Minute), ListeningSince: now.Add(-15 * time.Minute),
	}
}

func oldOrder(kind infrav1.OrderKind, result *infrav1.OrderResult) *infrav1.HostOrder {
	_, obs := restoredHost(func(*infrav1.IngotHost) {})
	return &infrav1.HostOrder{Kind: kind, ID: "o", Attempt: 1, AgentKey: "key", CreationTime: metav1.NewTime(obs.LastReset), Result: result}
}

func claimIn(state infrav1.ClaimState) *infrav1.HostClaim {
	return &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "c", InstanceID: "i", Attempt: 1, State: state, Cleaning: infrav1.CleaningMetadata}
}

// I21: with unconfirmed state, Ingot leaves a server that is on alone.
func TestUnconfirmedServerIsLeftAlone(t *testing.T) {
	type change = func(*infrav1.IngotHost)
	claimed := func(state infrav1.ClaimState, more ...change) change {
		return func(h *infrav1.IngotHost) {
			h.Spec.Claim = claimIn(state)
			for _, m := range more {
				m(h)
			}
		}
	}
	ordered := func(kind infrav1.OrderKind, result *infrav1.OrderResult) change {
		return func(h *infrav1.IngotHost) { h.Spec.Order = oldOrder(kind, result) }
	}
	fenced := func(h *infrav1.IngotHost) { h.Spec.Claim.FencedTime = h.CreationTimestamp }
	succeeded := &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded}
	failed := &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: "WriteFailed"}
	for name, in := range map[string]change{
		"inspecting":             ordered(infrav1.OrderInspect, nil),
		"inspected, not off yet": ordered(infrav1.OrderInspect, succeeded),
		"inspection failed":      ordered(infrav1.OrderInspect, failed),
		"cleaning without a claim": func(h *infrav1.IngotHost) {
			ordered(infrav1.OrderClean, nil)(h)
			h.Spec.Record.CleaningDue = infrav1.CleaningMetadata
		},
		"claimed":          claimed(infrav1.ClaimProvisioning),
		"installing":       claimed(infrav1.ClaimProvisioning, ordered(infrav1.OrderInstall, nil)),
		"install failed":   claimed(infrav1.ClaimProvisioning, ordered(infrav1.OrderInstall, failed)),
		"two agents":       claimed(infrav1.ClaimProvisioning, ordered(infrav1.OrderInstall, nil), func(h *infrav1.IngotHost) { h.Spec.Order.Revoked = new(bool); *h.Spec.Order.Revoked = true }),
		"provisioned, off": claimed(infrav1.ClaimProvisioned, func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff }),
		"provisioned, power cycle": claimed(infrav1.ClaimProvisioned, func(h *infrav1.IngotHost) {
			h.Spec.Claim.PowerCycle = &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: metav1.NewTime(h.CreationTimestamp.Add(23*time.Hour + 50*time.Minute))}
		}),
		"releasing":                 claimed(infrav1.ClaimReleasing),
		"releasing from an install": claimed(infrav1.ClaimReleasing, ordered(infrav1.OrderInstall, nil)),
		"fenced":                    claimed(infrav1.ClaimReleasing, fenced),
		"cleaning":                  claimed(infrav1.ClaimReleasing, fenced, ordered(infrav1.OrderClean, nil)),
		"cleaned, not off yet":      claimed(infrav1.ClaimReleasing, fenced, ordered(infrav1.OrderClean, succeeded)),
		"released by force": func(h *infrav1.IngotHost) {
			h.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineNotFenced, StartTime: h.CreationTimestamp}
		},
		"free, wanted off": func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff },
		"free, wanted on, unclean": func(h *infrav1.IngotHost) {
			h.Spec.Power = infrav1.PowerIntentOn
			h.Spec.Record.CleaningDue = infrav1.CleaningMetadata
		},
		"installing, moved from another cluster": claimed(infrav1.ClaimProvisioning, ordered(infrav1.OrderInstall, nil), func(h *infrav1.IngotHost) { h.Spec.Order.HostUID = "another" }),
	} {
		t.Run(name, func(t *testing.T) {
			host, obs := restoredHost(in)
			decision := Next(host, obs, DefaultPolicy())
			if decision.Rule != "unconfirmed" || decision.Reason != infrav1.ReasonStateUnconfirmed || decision.Event != "Warning" {
				t.Errorf("%s: %T %s", decision.Rule, decision.Step, decision.Message)
			}
			if n := utf8.RuneCountInString(sayUnconfirmed(&input{}).Message); n > 200 {
				t.Errorf("the message has %d characters", n)
			}
			obs.LedgerSince = time.Time{}
			if decision := Next(host, obs, DefaultPolicy()); decision.Rule == "unconfirmed" {
				t.Error("held although nothing is known of a gap")
			}
			obs.LedgerSince = obs.Now.Add(-48 * time.Hour)
			if decision := Next(host, obs, DefaultPolicy()); decision.Rule == "unconfirmed" {
				t.Error("held although managers watched all the time")
			}
			_, obs = restoredHost(in)
			obs.Power = infrav1.PowerStateOff
			if decision := Next(host, obs, DefaultPolicy()); decision.Rule == "unconfirmed" {
				t.Error("held although the server is off")
			}
		})
	}
}

// Evidence since the start of the watch confirms the ledger.
func TestEvidenceConfirmsLedger(t *testing.T) {
	installing := func(h *infrav1.IngotHost) {
		h.Spec.Claim, h.Spec.Order = claimIn(infrav1.ClaimProvisioning), oldOrder(infrav1.OrderInstall, nil)
	}
	releasing := func(h *infrav1.IngotHost) { h.Spec.Claim = claimIn(infrav1.ClaimReleasing) }
	since := func(obs *Observation) metav1.Time { return metav1.NewTime(obs.LedgerSince.Truncate(time.Second)) }
	for name, tc := range map[string]struct {
		in   func(*infrav1.IngotHost)
		show func(*infrav1.IngotHost, *Observation)
		rule string
	}{
		"the agent was heard": {installing, func(_ *infrav1.IngotHost, o *Observation) { o.LastContact = o.LedgerSince }, "order/silent"},
		"Ingot booted it":     {installing, func(_ *infrav1.IngotHost, o *Observation) { o.LastReset = o.LedgerSince }, "order/silent"},
		"the order is of since": {installing, func(h *infrav1.IngotHost, o *Observation) {
			h.Spec.Order.CreationTime, o.LastReset = since(o), o.LedgerSince
		}, "order/silent"},
		"its install is of since":     {releasing, func(h *infrav1.IngotHost, o *Observation) { h.Spec.Claim.ConfirmedTime = since(o) }, "releasing/off-ask"},
		"the host was made since":     {releasing, func(h *infrav1.IngotHost, o *Observation) { h.CreationTimestamp = since(o) }, "releasing/off-ask"},
		"its Node reports":            {releasing, func(_ *infrav1.IngotHost, o *Observation) { o.NodeHeard = o.LedgerSince }, "releasing/off-ask"},
		"its Node reported before":    {releasing, func(_ *infrav1.IngotHost, o *Observation) { o.NodeHeard = o.LedgerSince.Add(-time.Minute) }, "unconfirmed"},
		"installed, its Node reports": {installing, func(_ *infrav1.IngotHost, o *Observation) { o.NodeHeard = o.LedgerSince }, "installed-by-node"},
	} {
		t.Run(name, func(t *testing.T) {
			host, obs := restoredHost(tc.in)
			tc.show(host, &obs)
			if decision := Next(host, obs, DefaultPolicy()); decision.Rule != tc.rule {
				t.Errorf("%s: %s, want %s", decision.Rule, decision.Message, tc.rule)
			}
		})
	}
	host, obs := restoredHost(installing)
	host.Spec.Claim.Attempt = 0 // the backup is of before the order
	if !NeedsNode(host, obs) {
		t.Error("the Node of a claim is not looked for")
	}
	obs.NodeHeard = obs.Now
	save, ok := Next(host, obs, DefaultPolicy()).Step.(SaveLedger)
	if !ok || save.Ledger.Claim.State != infrav1.ClaimProvisioned || save.Ledger.Order != nil || save.Ledger.Claim.Attempt != 1 || !save.Ledger.Claim.ConfirmedTime.Equal(&metav1.Time{Time: obs.Now}) {
		t.Errorf("%+v", save.Ledger.Claim)
	}
}

// The markers that show a system in use while the state of the host is unconfirmed.
func TestSystemInUse(t *testing.T) {
	complete := func(instance string, attempt int32) agentapi.Marker {
		return agentapi.Marker{InstanceID: instance, Attempt: attempt, Complete: true}
	}
	inspect := func(h *infrav1.IngotHost) { h.Spec.Order = oldOrder(infrav1.OrderInspect, nil) }
	install := func(h *infrav1.IngotHost) {
		h.Spec.Claim, h.Spec.Order = claimIn(infrav1.ClaimProvisioning), oldOrder(infrav1.OrderInstall, nil)
	}
	wipe := func(h *infrav1.IngotHost) {
		h.Spec.Claim, h.Spec.Order = claimIn(infrav1.ClaimReleasing), oldOrder(infrav1.OrderClean, nil)
	}
	released := func(h *infrav1.IngotHost) { install(h); h.Spec.Record.LastInstanceID = "before" }
	rejected := func(h *infrav1.IngotHost) { install(h); h.Spec.Claim.RejectedAttempts = []int32{1} }
	for name, tc := range map[string]struct {
		host      func(*infrav1.IngotHost)
		markers   []agentapi.Marker
		restarted bool
		want      string
	}{
		"no markers":                            {host: inspect},
		"half an install of another instance":   {host: inspect, markers: []agentapi.Marker{{InstanceID: "other"}}},
		"inspection, a complete system":         {host: inspect, markers: []agentapi.Marker{complete("other", 1)}, want: "other"},
		"the second disk has it":                {host: inspect, markers: []agentapi.Marker{{InstanceID: "half"}, complete("other", 1)}, want: "other"},
		"install, another instance's":           {host: install, markers: []agentapi.Marker{complete("other", 1)}, want: "other"},
		"install, a released instance's":        {host: released, markers: []agentapi.Marker{complete("before", 1)}},
		"install, its own is adopted":           {host: install, markers: []agentapi.Marker{complete("i", 1)}},
		"install, its own, by an agent before":  {host: install, markers: []agentapi.Marker{complete("i", 1)}, restarted: true, want: "i"},
		"the same, and Ingot rejected it":       {host: rejected, markers: []agentapi.Marker{complete("i", 1)}, restarted: true},
		"cleaning, another instance's":          {host: wipe, markers: []agentapi.Marker{complete("other", 1)}, want: "other"},
		"cleaning, its own is what it cleans":   {host: wipe, markers: []agentapi.Marker{complete("i", 1)}},
		"cleaning, its own, by an agent before": {host: wipe, markers: []agentapi.Marker{complete("i", 1)}, restarted: true},
	} {
		t.Run(name, func(t *testing.T) {
			host, _ := restoredHost(tc.host)
			if got := SystemInUse(host, tc.markers, tc.restarted); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// A system in use holds the host with a condition that names it, even before the agent's deadline.
func TestSystemInUseHoldsHost(t *testing.T) {
	const instance = "7c1d3f52-8a4c-4f0e-b6a1-2f9f0f6b7c02"
	host, obs := restoredHost(func(h *infrav1.IngotHost) { h.Spec.Order = oldOrder(infrav1.OrderInspect, nil) })
	host.Status.LastResetTime = metav1.NewTime(obs.LastReset)
	obs.ListeningSince, obs.LastReset, obs.LastContact = obs.Now, obs.LedgerSince.Add(-time.Minute), time.Time{}
	if !IsUnconfirmed(host, obs.LedgerSince) {
		t.Error("its state counts as confirmed")
	}
	if decision := Next(host, obs, DefaultPolicy()); decision.Rule != "order/running" {
		t.Errorf("before: %s, want order/running", decision.Rule)
	}
	host.Spec.Order.Result = LeftInUse(instance, obs.Now)
	decision := Next(host, obs, DefaultPolicy())
	if decision.Rule != "unconfirmed" || decision.Reason != infrav1.ReasonStateUnconfirmed || !strings.Contains(decision.Message, instance) || utf8.RuneCountInString(decision.Message) > 200 {
		t.Errorf("%s %s: %s", decision.Rule, decision.Reason, decision.Message)
	}
	if IsUnconfirmed(host, time.Time{}) {
		t.Error("unconfirmed although nothing is known of a gap")
	}
	obs.Power = infrav1.PowerStateOff // a person's answer
	if decision := Next(host, obs, DefaultPolicy()); decision.Rule != "order/retry" {
		t.Errorf("switched off: %s, want order/retry", decision.Rule)
	}
}

// A host is held while its server was last seen on.
func TestIsHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		power  infrav1.PowerState
		want   bool
	}{
		"held":            {infrav1.ReasonStateUnconfirmed, infrav1.PowerStateOn, true},
		"power not known": {infrav1.ReasonStateUnconfirmed, "", true},
		"seen off":        {infrav1.ReasonStateUnconfirmed, infrav1.PowerStateOff, false},
		"at work":         {infrav1.ReasonInspecting, infrav1.PowerStateOn, false},
	} {
		host := &infrav1.IngotHost{}
		host.Status.Power = tc.power
		host.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: tc.reason}}
		if got := IsHeld(host); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if IsHeld(&infrav1.IngotHost{}) {
		t.Error("a host without a status is held")
	}
}
