// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

const here = "127.0.0.1"

// One install from the session to the commit point, each reply lost once (I4, I15).
func TestInstallOverTLS(t *testing.T) {
	s := newSite(t, append(world(), recorded(here))...)
	a := s.agent(claimsOf(token.Install), here)
	for range 2 {
		if reason := a.open(); reason != "" {
			t.Fatalf("session refused: %s", reason)
		}
	}
	host := s.host()
	if len(host.Spec.Order.AgentKey) != 64 {
		t.Errorf("the key is not bound: %q", host.Spec.Order.AgentKey)
	}
	if diff := cmp.Diff(&infrav1.DiskReference{SerialNumber: "d1", SizeBytes: ptr.To[int64](100e9)}, host.Spec.Claim.RootDisk); diff != "" {
		t.Errorf("root disk recorded before the install (-want +got):\n%s", diff)
	}
	order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
	if reason != "" {
		t.Fatalf("order refused: %s", reason)
	}
	want := agentapi.Order{Kind: agentapi.Install, ID: orderID, InstanceID: instanceID, Attempt: 2, Install: &agentapi.InstallOrder{
		ImageURL: "/images/" + firstKey, Checksum: "sha256:" + firstKey, Format: "raw", RootDisk: agentapi.DiskRef{Serial: "d1", SizeBytes: 100e9},
	}}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if reply, reason := call[agentapi.ProgressReply](a, agentapi.PathProgress, agentapi.Progress{OrderID: orderID, Step: agentapi.StepWrite, Percent: 140}); reason != "" || reply.Stop {
		t.Errorf("progress: stop %t, refusal %q", reply.Stop, reason)
	}
	if op := s.host().Status.Operation; op == nil || op.Step != string(agentapi.StepWrite) || *op.Percent != 100 || op.LastContactTime.IsZero() {
		t.Errorf("operation = %+v", op)
	}
	for range 2 {
		data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest())
		if reason != "" || !strings.Contains(string(data.UserData), canary) || !strings.Contains(data.MetaData, "instance-id: "+instanceID+"-2") {
			t.Errorf("bootstrap: refusal %q, meta-data %q", reason, data.MetaData)
		}
	}
	report := agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded, BytesWritten: 1 << 30}
	for range 2 {
		ack, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, report)
		if reason != "" || ack.Action != agentapi.BootDisk {
			t.Errorf("report: action %q, refusal %q", ack.Action, reason)
		}
		if host := s.host(); host.Spec.Claim.State != infrav1.ClaimProvisioned || host.Spec.Order != nil {
			t.Errorf("acknowledged before the commit point: %+v", host.Spec.Claim)
		}
	}
	// After the end nothing is served any more.
	if _, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest()); reason != agentapi.ReasonOrderGone {
		t.Errorf("bootstrap after the end: %q", reason)
	}
	if reply, _ := call[agentapi.ProgressReply](a, agentapi.PathProgress, agentapi.Progress{OrderID: orderID}); !reply.Stop {
		t.Error("an agent whose order has ended is not called off")
	}
	if !s.eventWith(infrav1.ReasonAgentStarted) || !s.eventWith(infrav1.ReasonProvisioned) || !s.eventWith(infrav1.ReasonAgentRequestRejected) {
		t.Errorf("events: %q", s.seen)
	}
}

// I14: the second key revokes both, with an event.
func TestSecondKeyRevokesBoth(t *testing.T) {
	s := newSite(t, world()...)
	first, second := s.agent(claimsOf(token.Install), here), s.agent(claimsOf(token.Install), here)
	if reason := first.open(); reason != "" {
		t.Fatal(reason)
	}
	if reason := second.open(); reason != agentapi.ReasonKeyConflict {
		t.Errorf("second key: %q", reason)
	}
	if !ptr.Deref(s.host().Spec.Order.Revoked, false) || !s.eventWith(infrav1.ReasonAgentKeyConflict) {
		t.Error("the order is not revoked, or nobody was told")
	}
	for _, a := range []*agent{first, second} {
		for _, path := range []string{agentapi.PathOrder, agentapi.PathBootstrap} {
			if _, reason := call[struct{}](a, path, struct{}{}); reason != agentapi.ReasonKeyConflict {
				t.Errorf("%s after the conflict: %q", path, reason)
			}
		}
		if _, reason := call[struct{}](a, agentapi.PathReport, agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded}); reason != agentapi.ReasonKeyConflict {
			t.Errorf("report after the conflict: %q", reason)
		}
	}
	if state := s.host().Spec.Claim.State; state != infrav1.ClaimProvisioning {
		t.Errorf("claim state = %s", state)
	}
}

// Two agents at the same moment: one is bound, never both.
func TestKeysRace(t *testing.T) {
	s := newSite(t, world()...)
	results := make(chan agentapi.Reason, 2)
	for range 2 {
		a := s.agent(claimsOf(token.Install), here)
		go func() { results <- a.open() }()
	}
	accepted := 0
	for range 2 {
		if reason := <-results; reason == "" {
			accepted++
		}
	}
	if accepted > 1 || !ptr.Deref(s.host().Spec.Order.Revoked, false) {
		t.Errorf("%d agents accepted, revoked %v", accepted, s.host().Spec.Order.Revoked)
	}
}

func TestExpiry(t *testing.T) {
	s := newSite(t, world()...)
	late := s.agent(claimsOf(token.Install), here)
	bound := s.agent(claimsOf(token.Install), here)
	s.clock.Step(token.Lifetime + time.Second)
	if reason := late.open(); reason != agentapi.ReasonTokenInvalid {
		t.Errorf("an expired token opened a session: %q", reason)
	}
	s.clock.Step(-token.Lifetime)
	if reason := bound.open(); reason != "" {
		t.Fatal(reason)
	}
	s.clock.Step(24 * time.Hour)
	if _, reason := call[agentapi.Order](bound, agentapi.PathOrder, agentapi.OrderRequest{}); reason != "" {
		t.Errorf("the key that is bound was refused for its token's age: %q", reason)
	}
}

// A body that is too large or no JSON is refused before anything is read of it.
func TestBadBodies(t *testing.T) {
	s := newSite(t, world()...)
	a := s.agent(claimsOf(token.Install), here)
	for name, tc := range map[string]struct {
		body string
		want int
	}{
		"oversize":     {`{"bootID":"` + strings.Repeat(canary, 1+agentapi.MaxRequestBytes/len(canary)) + `"}`, http.StatusRequestEntityTooLarge},
		"garbage":      {canary + "\x00\xff", http.StatusBadRequest},
		"another type": {`{"hardware":"` + canary + `"}`, http.StatusBadRequest},
		"empty":        {"", http.StatusBadRequest},
	} {
		for _, path := range []string{agentapi.PathSession, agentapi.PathReport, agentapi.PathProgress} {
			status, answer := a.post(path, []byte(tc.body))
			if name == "another type" && path != agentapi.PathSession {
				continue // the field is not theirs
			}
			if status != tc.want {
				t.Errorf("%s to %s: status %d, want %d", name, path, status, tc.want)
			}
			s.seen = append(s.seen, string(answer))
		}
	}
	if status, _ := a.post("/agent/v1/other", nil); status != http.StatusNotFound {
		t.Errorf("unknown path: %d", status)
	}
}

// A conflict is retried a limited number of times.
func TestConflicts(t *testing.T) {
	s := newSite(t, world()...)
	a := s.agent(claimsOf(token.Install), here)
	left := 2
	conflict := func(o client.Object) error {
		if _, ok := o.(*infrav1.IngotHost); !ok || left == 0 {
			return nil
		}
		left--
		return apierrors.NewConflict(schema.GroupResource{Resource: "ingothosts"}, o.GetName(), errors.New("changed"))
	}
	s.fail(nil, conflict)
	if reason := a.open(); reason != "" || left != 0 {
		t.Errorf("after two conflicts: %q, %d left", reason, left)
	}
	s.fail(nil, func(o client.Object) error { left = 1; return conflict(o) })
	report := agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded}
	if _, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, report); reason != agentapi.ReasonNotReady {
		t.Errorf("a report whose write never succeeds: %q", reason)
	}
	if s.host().Spec.Claim.State != infrav1.ClaimProvisioning {
		t.Error("committed without a write")
	}
}

// A wipe names every disk found; its report, and a failure, end in power-off.
func TestWipeAndFailure(t *testing.T) {
	wiping := func(h *infrav1.IngotHost) {
		h.Spec.Claim.State, h.Spec.Order.Kind = infrav1.ClaimReleasing, infrav1.OrderClean
	}
	s := newSite(t, world(wiping)...)
	a := s.agent(claimsOf(token.Clean), here)
	opened(s, a)
	order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
	want := &agentapi.CleanOrder{Mode: "Metadata", Disks: []agentapi.DiskRef{{Serial: "d1", SizeBytes: 100e9}, {Serial: "d2", SizeBytes: 200e9}},
		JournalKey: agentapi.Sensitive(s.keys.JournalKey("metal", "h1", instanceID))}
	if diff := cmp.Diff(want, order.Clean); diff != "" || reason != "" {
		t.Errorf("wipe order, refusal %q (-want +got):\n%s", reason, diff)
	}
	report := agentapi.Report{OrderID: orderID, Outcome: agentapi.Failed, Reason: strings.Repeat("D", 200), Message: strings.Repeat("é", 3000)}
	for range 2 {
		ack, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, report)
		if reason != "" || ack.Action != agentapi.PowerOff {
			t.Errorf("report: action %q, refusal %q", ack.Action, reason)
		}
	}
	result := s.host().Spec.Order.Result
	if result == nil || result.Outcome != infrav1.OrderFailed || result.Reason != strings.Repeat("D", maxReason) || len([]rune(result.Message)) != maxMessage {
		t.Errorf("result = %+v", result)
	}
	if !s.eventWith("CleanFailed") {
		t.Errorf("events: %q", s.seen)
	}
}

// The installed system reports itself, for its own instance and attempt only.
func TestBooted(t *testing.T) {
	committed := func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Order = infrav1.ClaimProvisioned, nil }
	s := newSite(t, append(world(committed), recorded("127.0.0.1"))...)
	say := func(claims token.Claims, instance string) (bool, agentapi.Reason) {
		a := s.keyless(claims)
		reply, reason := call[agentapi.BootedReply](a, agentapi.PathBooted,
			agentapi.Booted{InstanceID: instance, Hostname: "m1", Addresses: []string{"10.0.0.5", "127.0.0.1"}})
		return reply.Accepted, reason
	}
	booted := claimsOf(token.Booted)
	booted.Expiry = s.clock.Now().Add(token.BootedLifetime)
	old := booted
	old.Attempt = 1
	for name, tc := range map[string]struct {
		claims   token.Claims
		instance string
		want     agentapi.Reason
	}{
		"an agent's token":   {claimsOf(token.Install), instanceID, agentapi.ReasonTokenInvalid},
		"another instance":   {booted, orderID, agentapi.ReasonTokenInvalid},
		"an earlier attempt": {old, instanceID, agentapi.ReasonOrderGone},
	} {
		if accepted, reason := say(tc.claims, tc.instance); accepted || reason != tc.want {
			t.Errorf("%s: accepted %t, %q", name, accepted, reason)
		}
	}
	for range 2 {
		if accepted, reason := say(booted, instanceID); !accepted || reason != "" {
			t.Errorf("booted: %t, %q", accepted, reason)
		}
	}
	host := s.host()
	if diff := cmp.Diff([]string{"10.0.0.5"}, host.Status.Addresses); diff != "" || host.Status.Booted == nil || host.Status.Booted.Hostname != "m1" {
		t.Errorf("booted = %+v, addresses (-want +got):\n%s", host.Status.Booted, diff)
	}
	kept := &infrav1.IngotHardware{}
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(host), kept); err != nil {
		t.Fatal(err)
	}
	want := &infrav1.BootedSystem{InstanceID: instanceID, Hostname: "m1", ReportTime: host.Status.Booted.ReportTime, Addresses: []string{"10.0.0.5"}}
	if diff := cmp.Diff(want, kept.Spec.Booted); diff != "" {
		t.Errorf("report kept in IngotHardware (-want +got):\n%s", diff)
	}
	if s.eventWith(infrav1.ReasonFirstBootInterrupted) {
		t.Errorf("events: %q", s.seen)
	}
	s.clock.Step(token.BootedLifetime + time.Second)
	if accepted, reason := say(booted, instanceID); accepted || reason != agentapi.ReasonTokenInvalid {
		t.Errorf("expired: %t, %q", accepted, reason)
	}
}
