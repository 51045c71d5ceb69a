// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// identified is a BMC that says which server it manages.
type identified struct {
	*fakeBMC
	identity bmc.Identity
	// listed counts reads of the NICs; slow is the error of a full read.
	listed int
	slow   error
}

func (i *identified) Do(ctx context.Context, target bmc.Target, fn func(context.Context, bmc.Conn) error) error {
	return i.fakeBMC.Do(ctx, target, func(ctx context.Context, _ bmc.Conn) error { return fn(ctx, i) })
}

func (i *identified) Identity(context.Context) (bmc.Identity, error) { return i.identity, nil }

func (i *identified) Inventory(context.Context) (bmc.Inventory, error) {
	i.listed++
	if i.slow != nil {
		return bmc.Inventory{}, fmt.Errorf("NICs: %w", i.slow)
	}
	return bmc.Inventory{Identity: i.identity, MACs: i.macs}, nil
}

// accounts is such a BMC that takes passwords.
type accounts struct {
	*identified
	set int
}

func (a *accounts) Do(ctx context.Context, target bmc.Target, fn func(context.Context, bmc.Conn) error) error {
	return a.fakeBMC.Do(ctx, target, func(ctx context.Context, _ bmc.Conn) error { return fn(ctx, a) })
}

func (a *accounts) SetPassword(context.Context, bmc.Password) error {
	a.set++
	return bmc.ErrNotApplied
}

// I8: no BMC of another server gets a new password, and neither does a BMC in the middle of
// another's rotation.
func testRotationAtAnotherServer(t *testing.T, on *testEnv) {
	for name, tc := range map[string]struct {
		wrong func(*fixture, *accounts, *infrav1.IngotHost)
		begun bool
		says  string
	}{
		"another server": {wrong: func(_ *fixture, a *accounts, _ *infrav1.IngotHost) {
			a.identity = bmc.Identity{UUID: uuid.NewString(), Serial: "B2"}
		}, says: "another server"},
		"no NIC of the host": {wrong: func(_ *fixture, a *accounts, _ *infrav1.IngotHost) {
			a.macs = []string{"52:54:00:ff:ff:ff"}
		}, says: "52:54:00:ff:ff:ff"},
		"two hosts that are one server": {wrong: func(y *fixture, _ *accounts, h *infrav1.IngotHost) {
			y.create(y.secret("other"))
			y.host("twin", func(twin *infrav1.IngotHost) {
				twin.Spec.BootMACAddress, twin.Spec.BMC.CredentialsRef.Name = h.Spec.BootMACAddress, "other"
			})
		}, says: "/twin"},
		"a rotation under way": {begun: true, wrong: func(_ *fixture, a *accounts, _ *infrav1.IngotHost) {
			a.identity = bmc.Identity{UUID: uuid.NewString(), Serial: "B2"}
		}, says: "another server"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			server := infrav1.HardwareSystem{UUID: uuid.NewString(), SerialNumber: "A1"}
			metal := &accounts{identified: &identified{fakeBMC: y.bmc, identity: bmc.Identity{UUID: server.UUID, Serial: server.SerialNumber}}}
			y.BMC = metal
			host := y.ready("h", func(h *infrav1.IngotHost) {
				h.Spec.Maintenance = ptr.To(true)
				h.Annotations = map[string]string{infrav1.RotateCredentialsAnnotation: commandAt(y.clock.Now())}
			})
			facts, err := hardware.New(host, on.scheme)
			must(y, err)
			facts.Spec.System = server
			y.create(facts)
			tc.wrong(y, metal, host)
			secret := &corev1.Secret{}
			must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "bmc"}, secret))
			if tc.begun {
				secret.Data[infrav1.SecretKeyNextPassword] = []byte("begun-elsewhere")
				secret.Annotations = map[string]string{infrav1.RotatingAnnotation: "h redfish://somewhere.example"}
				must(y, y.api.Update(y.ctx, secret))
			}
			y.step("h") // writes finalizers; the manager's start is its first reconcile
			y.step("h")
			y.step("h")
			for range 8 { // within the lifetime of the command
				y.step("h")
				y.clock.Step(inventory.CommandLifetime / 10)
			}
			must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(secret), secret))
			if _, next := secret.Data[infrav1.SecretKeyNextPassword]; metal.set != 0 || next != tc.begun || string(secret.Data["password"]) != canary {
				t.Errorf("a BMC that is not the host's was given a password %d times; the Secret has %d keys", metal.set, len(secret.Data))
			}
			told := conditions.Get(y.get("h"), infrav1.HostCredentialsRotatedCondition)
			if told == nil || told.Status != metav1.ConditionFalse || !strings.Contains(told.Message, tc.says) {
				t.Errorf("condition %+v does not name %q", told, tc.says)
			}
		})
	}
}

// testSlowAfterTimeout: a slow BMC is usable again after one timeout. A BMC without an identity
// lists its NICs after each timeout.
func testSlowAfterTimeout(t *testing.T, on *testEnv) {
	for name, tc := range map[string]struct {
		identity bmc.Identity
		listed   int
	}{
		"with an identity": {bmc.Identity{UUID: uuid.NewString(), Serial: "A1"}, 1},
		"NICs only":        {bmc.Identity{}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			metal := &identified{fakeBMC: y.bmc, identity: tc.identity}
			y.BMC = metal
			y.ready("h", func(h *infrav1.IngotHost) { h.Spec.Maintenance = ptr.To(true) })
			y.until("h", "in maintenance", func(h *infrav1.IngotHost) bool { return h.Status.Phase == infrav1.PhaseMaintenance })
			y.bmc.set(func(f *fakeBMC) { f.readErr = bmc.ErrTimeout })
			y.clock.Step(time.Minute)
			y.step("h")
			y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCTimeout)
			y.bmc.set(func(f *fakeBMC) { f.readErr = nil })
			if metal.slow = nil; tc.listed == 1 {
				metal.slow = bmc.ErrTimeout
			}
			for range 3 {
				y.clock.Step(y.timing().BMCBackoffMax)
				y.step("h")
			}
			y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
			if metal.listed != tc.listed {
				t.Errorf("NICs were read %d times, want %d", metal.listed, tc.listed)
			}
		})
	}
}

// testMissingNICAppears: a NIC that the BMC lists late is found without a restart, and at once
// after a corrected boot MAC address or a retry command. Nothing is listed twice otherwise.
func testMissingNICAppears(t *testing.T, on *testEnv) {
	for name, tc := range map[string]struct {
		then   func(y *fixture, mac string)
		after  time.Duration
		listed int
		still  bool
	}{
		"none for once": {then: func(y *fixture, _ string) { y.bmc.set(func(f *fakeBMC) { f.macs = nil }) }, after: relistAfter, listed: 2, still: true},
		"listed later":  {then: func(y *fixture, mac string) { y.bmc.set(func(f *fakeBMC) { f.macs = append(f.macs, mac) }) }, after: relistAfter, listed: 2},
		"corrected": {then: func(y *fixture, _ string) {
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BootMACAddress = "52:54:00:ff:ff:01" })
		}, after: time.Minute, listed: 1},
		"asked for": {then: func(y *fixture, mac string) {
			y.bmc.set(func(f *fakeBMC) { f.macs = append(f.macs, mac) })
			y.annotate("h", map[string]string{infrav1.RetryBMCAnnotation: commandAt(y.clock.Now())})
		}, after: time.Minute, listed: 2},
		"put in with the address of the host": {then: func(y *fixture, _ string) {
			y.bmc.set(func(f *fakeBMC) { f.macs = append(f.macs, "52:54:00:ff:ff:02") })
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BootMACAddress = "52:54:00:ff:ff:02" })
		}, after: time.Minute, listed: 2},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.bmc.set(func(f *fakeBMC) { f.macs = []string{"52:54:00:ff:ff:01"} })
			metal := &identified{fakeBMC: y.bmc, identity: bmc.Identity{UUID: uuid.NewString(), Serial: "A1"}}
			y.BMC = metal
			host := y.ready("h")
			for range 4 {
				y.step("h")
				y.clock.Step(time.Minute)
			}
			y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonBootMACNotFound)
			tc.then(y, host.Spec.BootMACAddress)
			y.clock.Step(tc.after)
			for range 3 {
				y.step("h")
			}
			if ready := conditions.Get(y.get("h"), infrav1.ReadyCondition); (ready.Reason == infrav1.ReasonBootMACNotFound) != tc.still {
				t.Errorf("now %s: %s", ready.Reason, ready.Message)
			}
			if metal.listed != tc.listed {
				t.Errorf("NICs were read %d times, want %d", metal.listed, tc.listed)
			}
		})
	}
}

// A BMC that was unreachable may belong to another server at the same address: after DHCP or
// swapped blades.
func testBMCOfAnotherServerAfterOutage(t *testing.T, on *testEnv) {
	for name, away := range map[string]error{"unreachable": bmc.ErrUnreachable, "timeout": bmc.ErrTimeout} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			server := bmc.Identity{UUID: uuid.NewString(), Serial: "A1"}
			metal := &identified{fakeBMC: y.bmc, identity: server}
			y.BMC = metal
			host := y.ready("h")
			facts, err := hardware.New(host, on.scheme)
			must(y, err)
			facts.Spec.System = infrav1.HardwareSystem{UUID: server.UUID, SerialNumber: server.Serial}
			y.create(facts)
			y.inspect("h")

			y.bmc.set(func(f *fakeBMC) { f.readErr = away })
			y.clock.Step(time.Minute)
			y.step("h")
			y.bmc.set(func(f *fakeBMC) { f.readErr = nil })
			metal.identity = bmc.Identity{UUID: uuid.NewString(), Serial: "B2"}
			for range 3 {
				y.clock.Step(y.timing().BMCBackoffMax)
				y.step("h")
			}
			y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonWrongServer)
			if ok, _ := lifecycle.IsClaimable(y.get("h")); ok {
				t.Error("another server can be claimed")
			}
		})
	}
}

// sessioned is a BMC with numbered sessions. next, if set, happens
// after the next read of its power state.
type sessioned struct {
	*identified
	session, guarded uint64
	guard            func(context.Context) error
	asked, passwords int
	next             func()
}

func (s *sessioned) Do(ctx context.Context, target bmc.Target, fn func(context.Context, bmc.Conn) error) error {
	s.guard = nil
	return s.fakeBMC.Do(ctx, target, func(ctx context.Context, _ bmc.Conn) error { return fn(ctx, s) })
}

func (s *sessioned) Session() uint64 { return s.session }

func (s *sessioned) Guard(session uint64, check func(context.Context) error) {
	s.guarded, s.guard = session, check
}

func (s *sessioned) Identity(context.Context) (bmc.Identity, error) {
	s.asked++
	return s.identity, nil
}

func (s *sessioned) PollState(ctx context.Context) (bmc.PollState, error) {
	vitals, err := s.identified.PollState(ctx)
	if s.next != nil {
		defer s.next()
		s.next = nil
	}
	return vitals, err
}

func (s *sessioned) pass(ctx context.Context) error {
	if s.guard == nil || s.session == s.guarded {
		return nil
	}
	s.guarded = s.session
	return s.guard(ctx)
}

func (s *sessioned) SetPower(ctx context.Context, action bmc.PowerAction) error {
	if err := s.pass(ctx); err != nil {
		return err
	}
	return s.identified.SetPower(ctx, action)
}

// SetPassword takes a password that reaches it.
func (s *sessioned) SetPassword(ctx context.Context, _ bmc.Password) error {
	if err := s.pass(ctx); err != nil {
		return err
	}
	s.passwords++
	return nil
}

// testServerSwapBeforeNewPassword: the server is swapped between the read and the new password.
func testServerSwapBeforeNewPassword(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	server := bmc.Identity{UUID: uuid.NewString(), Serial: "A1"}
	metal := &sessioned{identified: &identified{fakeBMC: y.bmc, identity: server}, session: 7}
	swap := func() { metal.session, metal.identity = 8, bmc.Identity{UUID: uuid.NewString(), Serial: "B2"} }
	metal.next = func() { metal.next = swap } // it is read once before the rotation begins
	y.BMC = metal
	host := y.ready("h", func(h *infrav1.IngotHost) {
		h.Spec.Maintenance = ptr.To(true)
		h.Annotations = map[string]string{infrav1.RotateCredentialsAnnotation: commandAt(y.clock.Now())}
	})
	facts, err := hardware.New(host, on.scheme)
	must(y, err)
	facts.Spec.System = infrav1.HardwareSystem{UUID: server.UUID, SerialNumber: server.Serial}
	y.create(facts)
	y.step("h") // writes finalizers; the manager's start is its first reconcile
	y.step("h")
	for range 6 { // within the lifetime of the command
		y.step("h")
		y.clock.Step(inventory.CommandLifetime / 10)
	}
	if metal.identity == server {
		t.Fatal("the server was never swapped")
	}
	if metal.passwords != 0 {
		t.Errorf("another server was given a password %d times", metal.passwords)
	}
	if told := conditions.Get(y.get("h"), infrav1.HostCredentialsRotatedCondition); told == nil || !strings.Contains(told.Message, "another server") {
		t.Errorf("condition %+v", told)
	}
}

// testServerSwapWithoutFailedCall: another server's BMC takes over without a failed call. The new
// session reveals it, in a poll or in the power action itself.
func testServerSwapWithoutFailedCall(t *testing.T, on *testEnv) {
	other := bmc.Identity{UUID: uuid.NewString(), Serial: "B2"}
	for name, tc := range map[string]struct {
		swap  func(*sessioned)
		wrong bool
	}{
		"between two polls":           {func(s *sessioned) { s.session, s.identity = s.session+1, other }, true},
		"between a poll and an order": {func(s *sessioned) { s.next = func() { s.session, s.identity = s.session+1, other } }, true},
		"a new session of its own":    {func(s *sessioned) { s.session++ }, false},
		"one with the order":          {func(s *sessioned) { s.next = func() { s.session++ } }, false},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			server := bmc.Identity{UUID: uuid.NewString(), Serial: "A1"}
			metal := &sessioned{identified: &identified{fakeBMC: y.bmc, identity: server}, session: 7}
			y.BMC = metal
			host := y.ready("h")
			facts, err := hardware.New(host, on.scheme)
			must(y, err)
			facts.Spec.System = infrav1.HardwareSystem{UUID: server.UUID, SerialNumber: server.Serial}
			y.create(facts)
			y.inspect("h")
			if metal.asked != 0 {
				t.Errorf("asked who it is %d times by one session", metal.asked)
			}
			y.clock.Step(time.Minute)
			y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn }) // a free host is powered off
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff })
			tc.swap(metal)
			for range 4 {
				y.step("h")
				y.clock.Step(y.timing().BMCBackoffMax)
			}
			writes := y.bmc.took()
			if tc.wrong != (writes == "") {
				t.Errorf("the server got %q", writes)
			}
			if metal.asked == 0 || metal.asked > 2 {
				t.Errorf("asked who it is %d times", metal.asked)
			}
			if tc.wrong {
				y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonWrongServer)
			}
		})
	}
}

// testReplacement: a changed address must not power off another server, and a replaced BMC of the
// same server works.
func testReplacement(t *testing.T, on *testEnv) {
	t.Run("swapped", func(t *testing.T) { testBMCOfAnotherServerAfterOutage(t, on) })
	t.Run("swapped unseen", func(t *testing.T) { testServerSwapWithoutFailedCall(t, on) })
	t.Run("its password, unseen", func(t *testing.T) { testServerSwapBeforeNewPassword(t, on) })
	t.Run("slow after a timeout", func(t *testing.T) { testSlowAfterTimeout(t, on) })
	t.Run("a new card", func(t *testing.T) { testMissingNICAppears(t, on) })
	t.Run("its password", func(t *testing.T) { testRotationAtAnotherServer(t, on) })
	y := newFixture(t, on)
	server := bmc.Identity{UUID: uuid.NewString(), Serial: "A1"}
	y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn })
	metal := &identified{fakeBMC: y.bmc, identity: bmc.Identity{UUID: uuid.NewString(), Serial: "B2"}}
	y.BMC = metal
	host := y.ready("h", func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff })
	facts, err := hardware.New(host, on.scheme)
	must(y, err)
	facts.Spec.System = infrav1.HardwareSystem{UUID: server.UUID, SerialNumber: server.Serial}
	y.create(facts)

	for range 6 {
		y.step("h")
		y.clock.Step(time.Minute)
	}
	y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonWrongServer)
	if writes := y.bmc.took(); writes != "" {
		t.Fatalf("another server was switched: %s", writes)
	}

	metal.identity = server
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC.Address += ":8443" })
	for range 6 {
		y.step("h")
		y.clock.Step(time.Minute)
		if y.bmc.took() == string(bmc.ActionGracefulOff) {
			return
		}
	}
	t.Errorf("with its own BMC again, the host is not switched off: %+v", y.get("h").Status.Conditions)
}
