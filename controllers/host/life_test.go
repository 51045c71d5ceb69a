// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/timing"
)

// The lifecycle of a host: register, inspect, claim, install, release, fence, clean.
func testLifecycle(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	host := y.ready("h")
	y.bmc.macs = []string{host.Spec.BootMACAddress}
	y.step("h") // finalizer
	y.step("h") // paused condition
	y.step("h")
	hardware := &infrav1.IngotHardware{}
	if err := y.api.Get(y.ctx, client.ObjectKeyFromObject(host), hardware); err != nil || hardware.Spec.Address == nil {
		t.Fatalf("no address is recorded before the first boot: %v", err)
	}
	if writes := y.bmc.took(); writes != "" {
		t.Errorf("switched before there is an address and an order: %s", writes)
	}
	y.inspect("h")
	y.recordedOnce(infrav1.ReasonInspected)
	y.atRest("h")
	if phase := y.get("h").Status.Phase; phase != infrav1.PhaseAvailable {
		t.Errorf("phase = %s", phase)
	}

	y.claim("h")
	y.untilBoot("h", infrav1.OrderInstall)
	if attempt := y.get("h").Spec.Claim.Attempt; attempt != 1 {
		t.Errorf("attempt = %d", attempt)
	}
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Order = infrav1.ClaimProvisioned, nil })
	y.until("h", "provisioned", func(h *infrav1.IngotHost) bool { return h.Status.Phase == infrav1.PhaseProvisioned })
	y.want("h", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonProvisioned)
	y.atRest("h")

	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
	y.step("h")
	if writes := y.bmc.took(); writes != string(bmc.ActionGracefulOff) {
		t.Errorf("fenced by %q, want a soft power-off first", writes)
	}
	y.clock.Step(timing.Default().PowerSettle)
	if after := y.step("h").RequeueAfter; after != y.Policy.ShutdownPoll {
		t.Errorf("while it shuts down it is looked at after %s", after)
	}
	y.clock.Step(y.Policy.SoftPowerOff + time.Second)
	y.step("h")
	if writes := y.bmc.took(); writes != string(bmc.ActionForceOff) {
		t.Errorf("after the deadline: %q, want the power cut", writes)
	}
	if !y.get("h").Spec.Claim.FencedTime.IsZero() {
		t.Error("fenced without a confirmed power-off (I7)")
	}
	y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff })
	y.until("h", "fenced", func(h *infrav1.IngotHost) bool { return !h.Spec.Claim.FencedTime.IsZero() })
	y.untilBoot("h", infrav1.OrderClean)
	y.finish("h")
	free := y.until("h", "free", func(h *infrav1.IngotHost) bool {
		return h.Spec.Claim == nil && h.Status.Phase == infrav1.PhaseAvailable
	})
	if free.Spec.Record.SanitizedTime.IsZero() {
		t.Error("free without a confirmed cleaning")
	}
	y.atRest("h")
}

// I1, I2: a decision on a stale version writes nothing, sends no power action and records no event.
func testStaleViewHasNoEffect(t *testing.T, on *testEnv) {
	annotate := func(h *infrav1.IngotHost) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"} }
	for name, change := range map[string]func(y *fixture){
		"spec changed":          func(y *fixture) { y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff }) },
		"paused meanwhile":      func(y *fixture) { y.edit("h", annotate) },
		"being deleted":         func(y *fixture) { must(y, y.api.Delete(y.ctx, y.get("h"))) },
		"switched a moment ago": func(y *fixture) { y.status("h", func(s *infrav1.IngotHostStatus) { s.LastResetTime = metav1.Now() }) },
		"asked to shut down": func(y *fixture) {
			y.status("h", func(s *infrav1.IngotHostStatus) { s.SoftPowerOffTime = metav1.Now() })
		},
	} {
		t.Run("switch/"+name, func(t *testing.T) {
			y := newFixture(t, on)
			y.ready("h")
			y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
			y.Client = &behind{Indexed: y.api, host: y.get("h")}
			change(y)
			before := y.get("h")
			result := y.step("h")
			if writes := y.bmc.took(); writes != "" {
				t.Errorf("switched on an old view: %s", writes)
			}
			if result.RequeueAfter != timing.Default().Conflict || y.get("h").ResourceVersion != before.ResourceVersion {
				t.Errorf("requeue %s, and the status was written on an old view", result.RequeueAfter)
			}
		})
	}
	t.Run("progress is no reason to wait", func(t *testing.T) {
		y := newFixture(t, on)
		y.ready("h")
		y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
		y.Client = &behind{Indexed: y.api, host: y.get("h")}
		y.status("h", func(s *infrav1.IngotHostStatus) { s.Operation = &infrav1.HostOperation{Step: "Writing"} })
		y.clock.Step(time.Minute)
		y.step("h")
		if writes := y.bmc.took(); writes != "boot PXE UEFI, On" {
			t.Errorf("writes = %q", writes)
		}
	})
	t.Run("ledger", func(t *testing.T) {
		y := newFixture(t, on)
		y.ready("h")
		y.until("h", "on the way", func(h *infrav1.IngotHost) bool { return h.Status.Phase != "" })
		y.all()
		y.recorded = nil
		y.Client = &behind{Indexed: y.api, host: y.get("h")}
		y.edit("h", func(h *infrav1.IngotHost) { h.Labels = map[string]string{"a": "b"} })
		before := y.get("h")
		y.clock.Step(time.Minute)
		if result := y.step("h"); result.RequeueAfter != timing.Default().Conflict {
			t.Errorf("requeue after %s", result.RequeueAfter)
		}
		if after := y.get("h"); after.ResourceVersion != before.ResourceVersion || len(y.all()) != 0 {
			t.Errorf("written or recorded on a stale version: order %+v, events %q", after.Spec.Order, y.recorded)
		}
	})
}

// I7: once a host was seen off, an old graceful shutdown does not shorten the next one.
func testOldShutdownIsForgotten(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h", func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()} })
	y.until("h", "available", func(h *infrav1.IngotHost) bool { return h.Status.Phase == infrav1.PhaseAvailable })
	y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn })
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff })
	y.step("h")
	if writes := y.bmc.took(); writes != string(bmc.ActionGracefulOff) {
		t.Fatalf("writes = %q", writes)
	}
	y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff })
	y.step("h")
	if asked := y.get("h").Status.SoftPowerOffTime; !asked.IsZero() {
		t.Error("the request is remembered after it was met")
	}
	y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn }) // by hand, a week later
	y.clock.Step(7 * 24 * time.Hour)
	y.step("h")
	if writes := y.bmc.took(); writes != string(bmc.ActionGracefulOff) {
		t.Errorf("a week later: %q, want a soft power-off again", writes)
	}
}

func testDeletion(t *testing.T, on *testEnv) {
	t.Run("while firmware is written", func(t *testing.T) { testDeletionWaitsForFirmwareUpdate(t, on) })
	ordered := func(y *fixture) { y.untilBoot("h", infrav1.OrderInspect) }
	claimed := func(y *fixture) { y.inspect("h"); y.claim("h") }
	released := func(y *fixture) {
		y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State = infrav1.ClaimReleasing })
		y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn })
	}
	forced := func(y *fixture) {
		y.edit("h", func(h *infrav1.IngotHost) {
			h.Annotations = map[string]string{infrav1.ForceReleaseAnnotation: commandAt(y.clock.Now())}
		})
	}
	for name, tc := range map[string]struct {
		before []func(*fixture)
		gone   bool
		writes string
		reason string
	}{
		"new":                   {gone: true},
		"available":             {before: []func(*fixture){func(y *fixture) { y.inspect("h") }}, gone: true},
		"an agent at work":      {before: []func(*fixture){ordered}, writes: string(bmc.ActionForceOff), reason: infrav1.ReasonWaiting},
		"claimed":               {before: []func(*fixture){claimed}, reason: infrav1.ReasonDeleting},
		"released":              {before: []func(*fixture){claimed, released}, writes: string(bmc.ActionGracefulOff), reason: infrav1.ReasonFencing},
		"claimed, by force":     {before: []func(*fixture){claimed, forced}, gone: true},
		"an agent, BMC dead":    {before: []func(*fixture){ordered, func(y *fixture) { y.bmc.readErr = bmc.ErrUnreachable }}, reason: infrav1.ReasonBMCUnreachable},
		"BMC dead, by force":    {before: []func(*fixture){ordered, func(y *fixture) { y.bmc.readErr = bmc.ErrUnreachable }, forced}, gone: true},
		"new, credentials gone": {before: []func(*fixture){func(y *fixture) { must(y, y.api.Delete(y.ctx, y.secret("bmc"))) }}, gone: true},
		"paused":                {before: []func(*fixture){func(y *fixture) { y.pause("h") }}},
		"moved by clusterctl": {before: []func(*fixture){func(y *fixture) {
			y.edit("h", func(h *infrav1.IngotHost) {
				h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			})
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.ready("h")
			y.step("h") // finalizer
			for _, f := range tc.before {
				f(y)
			}
			must(y, y.api.Delete(y.ctx, y.get("h")))
			y.clock.Step(31 * time.Second)
			reads := y.bmc.readsSoFar()
			for range 3 {
				y.step("h")
			}
			host := y.get("h")
			if (host == nil) != tc.gone {
				t.Fatalf("gone %t, want %t: %+v", host == nil, tc.gone, host)
			}
			if writes := y.bmc.took(); writes != tc.writes {
				t.Errorf("writes = %q, want %q", writes, tc.writes)
			}
			if tc.reason != "" {
				y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, tc.reason)
			}
			if !tc.gone && tc.reason == "" && y.bmc.readsSoFar() != reads {
				t.Error("a host was touched that must not be")
			}
			if tc.writes == "" {
				return
			}
			y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff })
			y.clock.Step(31 * time.Second)
			for range 4 { // a released host is fenced and freed first
				y.step("h")
			}
			if y.get("h") != nil {
				t.Error("the host stays though it is off")
			}
		})
	}
}

func must(y *fixture, err error) {
	y.t.Helper()
	if err != nil {
		y.t.Fatal(err)
	}
}

// status changes the status as the agent server does.
func (y *fixture) status(name string, change func(*infrav1.IngotHostStatus)) {
	y.t.Helper()
	host := y.get(name)
	base := host.DeepCopy()
	change(&host.Status)
	must(y, y.api.Status().Patch(y.ctx, host, client.MergeFrom(base)))
}

func (y *fixture) pause(name string) {
	y.t.Helper()
	y.edit(name, func(h *infrav1.IngotHost) {
		h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
}

// M43, M44: Ingot does not act on a paused host, shows the pause, and continues afterwards.
func testPause(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h")
	y.step("h")
	y.pause("h")
	y.step("h")
	y.want("h", infrav1.PausedCondition, metav1.ConditionTrue, clusterv1.PausedReason)
	reads, before := y.bmc.readsSoFar(), y.get("h")
	for range 3 {
		if after := y.step("h").RequeueAfter; after != y.Poll {
			t.Errorf("a paused host is looked at again after %s", after)
		}
	}
	if y.bmc.readsSoFar() != reads || y.get("h").ResourceVersion != before.ResourceVersion {
		t.Error("a paused host was asked or written to")
	}
	y.edit("h", func(h *infrav1.IngotHost) { h.Annotations = nil })
	if result := y.step("h"); result.RequeueAfter <= 0 {
		t.Error("nothing brings the host up again after its pause")
	}
	y.want("h", infrav1.PausedCondition, metav1.ConditionFalse, clusterv1.NotPausedReason)
	y.inspect("h")
}

// I13, I18: a new Secret is used at once, and hosts that share it are all its owners.
func testSecret(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.host("a")
	y.host("b")
	var waits []time.Duration
	for range 6 {
		waits = append(waits, y.step("a").RequeueAfter)
		y.clock.Step(waits[len(waits)-1])
	}
	message := y.want("a", infrav1.HostCredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsMissing).Message
	if !strings.Contains(message, `"bmc"`) || y.bmc.readsSoFar() != 0 {
		t.Errorf("message %q, %d calls without credentials", message, y.bmc.readsSoFar())
	}
	if first := waits[2]; first < timing.Default().BMCBackoffFirst-time.Second || first > 2*timing.Default().BMCBackoffFirst || waits[5] <= first || waits[5] > y.Poll {
		t.Errorf("waits = %s: want them to grow from %s to at most %s", waits, timing.Default().BMCBackoffFirst, y.Poll)
	}
	y.create(y.secret("bmc"))
	y.step("a")
	y.step("a")
	y.want("a", infrav1.HostCredentialsValidCondition, metav1.ConditionTrue, infrav1.ReasonCredentialsAccepted)
	for range 3 {
		y.step("b")
	}
	secret := &corev1.Secret{}
	must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "bmc"}, secret))
	if _, labelled := secret.Labels[infrav1.BMCCredentialsLabel]; !labelled || len(secret.OwnerReferences) != 2 {
		t.Errorf("labels %v, owners %+v: want the label and both hosts", secret.Labels, secret.OwnerReferences)
	}
	version := secret.ResourceVersion
	y.step("a")
	y.step("b")
	must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(secret), secret))
	if secret.ResourceVersion != version {
		t.Error("the Secret is written again and again")
	}
	// A wrong password is rejected; the correct one is used at once.
	secret.Data["password"] = []byte("wrong")
	must(y, y.api.Update(y.ctx, secret))
	y.step("a")
	y.want("a", infrav1.HostCredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected)
	secret.Data["password"] = []byte(canary)
	must(y, y.api.Update(y.ctx, secret))
	y.step("a")
	y.want("a", infrav1.HostCredentialsValidCondition, metav1.ConditionTrue, infrav1.ReasonCredentialsAccepted)
}
