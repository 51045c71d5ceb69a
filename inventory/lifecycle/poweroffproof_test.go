// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestOffProof(t *testing.T) {
	released := func(id string) *infrav1.IngotHost {
		h := newWorld(nil).host
		h.Spec.Claim = claimOf(infrav1.ClaimReleasing)
		h.Spec.Claim.InstanceID = id
		return h
	}
	inUse := released("i")
	inUse.Spec.Claim.State = infrav1.ClaimProvisioned
	h, on, off := released("i"), infrav1.PowerStateOn, infrav1.PowerStateOff
	for name, tc := range map[string]struct {
		proof OffProof
		want  bool
	}{
		"nothing known":                  {OffProof{}, false},
		"off, however often":             {OffProof{}.Seen(h, off).Seen(h, off).Seen(h, off), false},
		"on, then off":                   {OffProof{}.Seen(h, on).Seen(h, off), true},
		"on, then nothing":               {OffProof{}.Seen(h, on).Seen(h, infrav1.PowerStateUnknown), true},
		"on before the release":          {OffProof{}.Seen(inUse, on).Seen(h, off), false},
		"ordered off":                    {OffProof{}.Seen(h, off).Ordered(h).Seen(h, off), true},
		"ordered off before the release": {OffProof{}.Ordered(inUse).Seen(h, off), false},
		"the release before":             {OffProof{}.Ordered(released("j")).Seen(h, off), false},
		"refused twice":                  {OffProof{}.Refused(h).Seen(h, off).Refused(h).Seen(h, off), false},
		"refused three times":            {OffProof{}.Refused(h).Seen(h, off).Refused(h).Refused(h).Seen(h, off), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.proof.Holds(h); got != tc.want {
				t.Errorf("holds: %t, want %t", got, tc.want)
			}
		})
	}
	for name, tc := range map[string]struct {
		proof OffProof
		want  bool
	}{
		"on": {OffProof{}.Seen(h, on).Seen(h, off), true}, "ordered": {OffProof{}.Ordered(h), false}, "refused": {OffProof{}.Refused(h).Refused(h).Refused(h), false},
		"on before the release": {OffProof{}.Seen(inUse, on).Seen(h, off), false},
	} {
		if got := tc.proof.SeenOn(h); got != tc.want {
			t.Errorf("%s: seen on: %t, want %t", name, got, tc.want)
		}
	}
	if (OffProof{}).Ordered(inUse).Holds(inUse) {
		t.Error("there is proof for what nobody wants")
	}
}

// No irreversible step follows from a BMC's report alone. A host that was seen on, or powered off, is
// powered off only once.
func TestIrreversibleStepsNeedProofOfOff(t *testing.T) {
	release := func(s *scene) { s.host.Spec.Claim = claimOf(infrav1.ClaimReleasing) }
	cycle := func(s *scene) {
		s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
		s.host.Spec.Claim.PowerCycle = &infrav1.ClaimPowerCycle{Count: 1, State: infrav1.PowerCycleOff, RequestTime: metav1.Time{Time: day().Add(-time.Minute)}}
	}
	force := func(s *scene) {
		s.host.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineNotFenced, Message: "forced"}
	}
	proven := func(s *scene) { s.obs.OffProven = true }
	for name, tc := range map[string]struct {
		changes []func(*scene)
		rule    string
	}{
		"released":                  {[]func(*scene){release}, "releasing/unproven"},
		"released, proven":          {[]func(*scene){release, proven}, "releasing/fenced"},
		"released, switched before": {[]func(*scene){release, func(s *scene) { s.obs.LastReset = day().Add(-time.Second) }}, "releasing/doubted"},
		"released, asked to shut down, and then the manager restarted": {[]func(*scene){release, func(s *scene) {
			s.obs.LastReset, s.obs.SoftOffAt = day().Add(-time.Second), day().Add(-time.Second)
		}}, "releasing/fenced"},
		"power-cycled":              {[]func(*scene){cycle}, "cycle/unproven"},
		"power-cycled, proven":      {[]func(*scene){cycle, proven}, "cycle/confirmed"},
		"power-cycled too late":     {[]func(*scene){cycle, func(s *scene) { s.obs.UnpausedAt = day() }}, "cycle/confirmed"},
		"released by force":         {[]func(*scene){force}, "free/not-fenced-unproven"},
		"released by force, proven": {[]func(*scene){force, proven}, "free/now-fenced"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(*scene) {})
			for _, change := range tc.changes {
				change(&s)
			}
			d := Next(s.host, s.obs, DefaultPolicy())
			if d.Rule != tc.rule {
				t.Errorf("rule %s, want %s: %s", d.Rule, tc.rule, d.Message)
			}
		})
	}
}
