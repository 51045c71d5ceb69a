// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/internal/timing"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// faultFixture is a fixture whose hosts have an emulated BMC.
type faultFixture struct {
	*fixture
	b     *labbmc.BMC
	bench *labbmc.Bench
	ca    *labbmc.Authority
}

func newFaultFixture(t *testing.T, on *testEnv) *faultFixture {
	t.Helper()
	m := &faultFixture{fixture: newFixture(t, on), bench: &labbmc.Bench{}}
	var err error
	if m.ca, err = labbmc.NewAuthority(); err != nil {
		t.Fatal(err)
	}
	m.b, err = labbmc.Start(labbmc.Config{Authority: m.ca, Machine: m.bench, Username: "root", Password: canary})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.b.Close() })
	t.Cleanup(m.clear)          // before its BMC ends
	m.patient(30 * time.Second) // a slow test machine is no unreachable BMC
	m.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.ns, Name: "ca"}, Data: map[string]string{"ca.crt": string(m.ca.PEM())}})
	return m
}

// patient sets the time limit of BMC calls.
func (m *faultFixture) patient(limit time.Duration) {
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{CallTimeout: limit, CloseTimeout: time.Second})
	m.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = pool.Close(ctx) // some of the BMCs do not answer
	})
	m.Reconciler.BMC = pool
}

// register creates the host after applying changes.
func (m *faultFixture) register(name string, changes ...func(*infrav1.IngotHost)) {
	m.t.Helper()
	m.ready(name, append([]func(*infrav1.IngotHost){func(h *infrav1.IngotHost) {
		h.Spec.BMC.Address, h.Spec.BMC.CABundleRef = m.b.Address(), &infrav1.CABundleReference{Name: "ca"}
	}}, changes...)...)
}

// Each fault of a BMC or server has its own reason and remedy, without the password.
func testFaults(t *testing.T, on *testEnv) {
	plain := func(m *faultFixture) { m.register("h") }
	faults := func(f ...labbmc.Faults) func(*faultFixture) {
		return func(m *faultFixture) {
			m.b.SetFaults(f...)
			m.register("h")
		}
	}
	for name, tc := range map[string]struct {
		prepare func(*faultFixture)
		reason  string
		remedy  string
	}{
		"nothing": {plain, infrav1.ReasonInspecting, ""},
		"wrong password": {func(m *faultFixture) { m.b.SetPassword("another"); plain(m) },
			infrav1.ReasonCredentialsRejected, "rejects the password of Secret bmc"},
		"no Secret": {func(m *faultFixture) {
			m.register("h", func(h *infrav1.IngotHost) { h.Spec.BMC.CredentialsRef.Name = "none" })
		},
			infrav1.ReasonCredentialsMissing, "Secret \"none\" does not exist"},
		"wrong certificate": {func(m *faultFixture) { m.register("h", func(h *infrav1.IngotHost) { h.Spec.BMC.CABundleRef = nil }) },
			infrav1.ReasonCertificateInvalid, "spec.bmc.caBundleRef"},
		"unreachable": {func(m *faultFixture) { m.b.Down(); plain(m) },
			infrav1.ReasonBMCUnreachable, "Check spec.bmc.address"},
		"silent": {func(m *faultFixture) { m.patient(time.Second); faults(labbmc.Faults{Hang: true})(m) }, infrav1.ReasonBMCTimeout, "reset the BMC"},
		"busy": {faults(labbmc.Faults{Status: 503, RetryAfter: 5 * time.Second}),
			infrav1.ReasonBMCBusy, "close other sessions"},
		"sessions taken": {faults(labbmc.Faults{SessionsFull: true}), infrav1.ReasonBMCBusy, "close other sessions"},
		"rate-limited": {faults(labbmc.Faults{Status: 429, RetryAfter: 7 * time.Second}),
			infrav1.ReasonBMCRateLimited, "slow down other clients"},
		"unsupported": {func(m *faultFixture) {
			m.register("h", func(h *infrav1.IngotHost) { h.Spec.BMC.Address = m.b.Address() + "/redfish/v1/Systems/none" })
		}, infrav1.ReasonBMCUnsupported, "names the right System"},
		"nonsense": {faults(labbmc.Faults{Body: "<html>Welcome</html>"}), infrav1.ReasonBMCError, "check the BMC's log"},
		"cut off":  {faults(labbmc.Faults{Truncate: true}), infrav1.ReasonBMCError, "check the BMC's log"},
		"duplicate": {func(m *faultFixture) { m.register("other"); m.register("h") },
			infrav1.ReasonDuplicate, "until one of the two is corrected or deleted"},
		"unexpectedly on": {func(m *faultFixture) {
			must(m.fixture, m.bench.Power(m.ctx, labbmc.On))
			plain(m)
		}, infrav1.ReasonPoweredOnUnexpectedly, infrav1.ApproveAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFaultFixture(t, on)
			tc.prepare(m)
			for range 4 {
				m.step("h")
			}
			ready := m.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, tc.reason)
			if !strings.Contains(ready.Message, tc.remedy) {
				t.Errorf("message %q names no remedy %q", ready.Message, tc.remedy)
			}
			text, err := json.Marshal(m.get("h").Status)
			must(m.fixture, err)
			if all := string(text) + strings.Join(m.all(), "\n"); strings.Contains(all, canary) || strings.Contains(all, "another\"") {
				t.Errorf("a password is shown: %s", all)
			}
		})
	}
}

// Ingot retries a BMC that stays away rarely, and reports so in its condition without a write
// at each try.
func testBreaker(t *testing.T, on *testEnv) {
	for name, fault := range map[string]labbmc.Faults{
		"dead": {Drop: true}, "rate-limited": {Status: 429, RetryAfter: 90 * time.Second}, "wrong password": {Status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFaultFixture(t, on)
			// The pool does not use the test's clock; its pauses would be real.
			m.Reconciler.BMC = bmc.NewPool(redfish.Dial, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1, LockAfter: -1}, IdleTimeout: -1})
			m.b.SetFaults(fault)
			m.register("h")
			for range 2 {
				m.step("h")
			}
			since := m.clock.Now().UTC().Format(time.RFC3339)
			seen := map[string]bool{}
			tries, asked := 0, m.b.Reads()+len(m.b.Writes())
			for range 60 {
				after := m.step("h").RequeueAfter
				if after <= 0 || after > timing.Default().BMCBackoffMax+timing.Default().BMCBackoffMax/2 {
					t.Fatalf("tried again after %s", after)
				}
				if now := m.b.Reads() + len(m.b.Writes()); now != asked {
					tries, asked = tries+1, now
				}
				seen[m.get("h").ResourceVersion] = true
				m.clock.Step(time.Minute)
			}
			if tries > 18 || tries < 10 {
				t.Errorf("%d tries in an hour, want about 12", tries)
			}
			if len(seen) > 4 {
				t.Errorf("%d versions of the host in an hour, want at most 4", len(seen))
			}
			ready := conditions.Get(m.get("h"), infrav1.ReadyCondition)
			wants := []string{"since " + since[:16], "within 5 minutes"}
			if fault.Status == 401 {
				wants = []string{"within 75 minutes"}
			}
			for _, want := range wants {
				if !strings.Contains(ready.Message, want) {
					t.Errorf("message %q, want %q in it", ready.Message, want)
				}
			}
			m.Reconciler.memory = hostMemory{} // a manager that starts
			before := m.get("h")
			m.step("h")
			if text := conditions.Get(m.get("h"), infrav1.ReadyCondition).Message; before.Status.Conditions[0].LastTransitionTime != m.get("h").Status.Conditions[0].LastTransitionTime {
				t.Errorf("news of an old failure: %s", text)
			}
			m.b.SetFaults()
			m.clock.Step(timing.Default().BMCBackoffMax)
			m.step("h")
			m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
		})
	}
}
