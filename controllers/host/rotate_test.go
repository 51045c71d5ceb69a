// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	"github.com/ingot-metal/ingot/internal/rotation"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

// isAccount matches the change of the account's password.
func isAccount(method, path string) bool {
	return method == http.MethodPatch && strings.Contains(path, "/Accounts/")
}

// A rotation sets a new password that only the Secret and the BMC have, verified by a login; the
// host is then idle.
func testRotation(t *testing.T, on *testEnv) {
	for _, maker := range []string{"standard", "dell-idrac9", "hpe-ilo6", "openbmc", "ami"} {
		t.Run(maker, func(t *testing.T) {
			m := newSimHost(t, on, maker)
			m.calm()
			m.ask()
			m.tick()
			if !m.done(m.get("h")) {
				t.Fatalf("not done in one reconcile: %+v", m.get("h").Status.Conditions)
			}
			secret := m.credentials()
			password := string(secret.Data[infrav1.SecretKeyPassword])
			if password == canary || password != m.lab.Password() || len(password) != rotation.LengthRedfish || len(secret.Data) != 2 {
				t.Errorf("Secret with %d keys and a password of %d bytes; the BMC's? %v", len(secret.Data), len(password), password == m.lab.Password())
			}
			m.rotated(metav1.ConditionTrue, infrav1.ReasonCredentialsRotated)
			m.want("h", infrav1.HostCredentialsValidCondition, metav1.ConditionTrue, infrav1.ReasonCredentialsAccepted)
			m.recordedOnce(infrav1.ReasonCredentialsRotating)
			m.recordedOnce(infrav1.ReasonCredentialsRotated)
			m.tick() // it observes the generation that the rotation wrote
			before := m.get("h").ResourceVersion
			m.tick()
			if m.get("h").ResourceVersion != before || m.credentials().ResourceVersion != secret.ResourceVersion {
				t.Error("something is written after the rotation")
			}
			if n := m.lab.Sessions(); n != 1 {
				t.Errorf("%d sessions are open, want one", n)
			}
			if actions := strings.Join(m.lab.Actions(), ", "); strings.Contains(actions, "Reset") || strings.Contains(actions, "Boot") {
				t.Errorf("the server was touched: %s", actions)
			}
		})
	}
	t.Run("a factory password", func(t *testing.T) {
		m := newSimHost(t, on, "openbmc-factory")
		m.settled("refused", func(h *infrav1.IngotHost) bool {
			return conditions.GetReason(h, infrav1.HostCredentialsValidCondition) == infrav1.ReasonPasswordChangeRequired
		})
		m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
		if told := conditions.GetMessage(m.get("h"), infrav1.HostCredentialsValidCondition); !strings.Contains(told, infrav1.RotateCredentialsAnnotation) || len(told) > 200 {
			t.Errorf("%d bytes, want the annotation in it: %s", len(told), told)
		}
		if m.lab.Password() != canary {
			t.Error("the password was changed before a user asked for that")
		}
		m.ask()
		m.settled("rotated", m.done)
		m.rotated(metav1.ConditionTrue, infrav1.ReasonCredentialsRotated)
		if password := string(m.credentials().Data[infrav1.SecretKeyPassword]); password == canary || password != m.lab.Password() {
			t.Error("the Secret has another password than the BMC")
		}
		m.settled("well", func(h *infrav1.IngotHost) bool {
			return conditions.IsTrue(h, infrav1.HostCredentialsValidCondition)
		})
	})
	t.Run("a provisioned host", func(t *testing.T) {
		m := newSimHost(t, on, "standard", func(h *infrav1.IngotHost) { h.Spec.Maintenance = nil })
		m.claim("h")
		m.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Claim.Attempt = infrav1.ClaimProvisioned, 1 })
		m.settled("seen", func(h *infrav1.IngotHost) bool {
			return conditions.IsTrue(h, infrav1.HostCredentialsValidCondition)
		})
		m.ask()
		m.settled("rotated", m.done)
		m.rotated(metav1.ConditionTrue, infrav1.ReasonCredentialsRotated)
		if actions := strings.Join(m.lab.Actions(), ", "); strings.Contains(actions, "Reset") {
			t.Errorf("the server was touched: %s", actions)
		}
	})
}

// A crash at any call, before or after it, never loses the password, and the rotation completes.
func testRotationKilled(t *testing.T, on *testEnv) {
	deaths, every := 0, deathsApart()
	for at := 1; ; at += every {
		m := newSimHost(t, on, "standard")
		m.calm()
		m.ask()
		m.restart(at)
		for range 4 { // a rotation takes fewer
			m.tick()
		}
		died := m.mort.dead()
		m.restart(0)
		m.settled("rotated", m.done)
		m.rotated(metav1.ConditionTrue, infrav1.ReasonCredentialsRotated)
		if data := m.credentials().Data; string(data["password"]) != m.lab.Password() || m.lab.Password() == canary || len(data) != 2 {
			t.Errorf("death %d: the Secret has %d keys, and the BMC's password: %v", at, len(data), string(data["password"]) == m.lab.Password())
		}
		if t.Failed() {
			t.Fatalf("after a death at call %d", at)
		}
		if !died {
			break
		}
		deaths++
		m.clear()
		_ = m.lab.Close()
	}
	if deaths*every < 30 {
		t.Errorf("only %d deaths: a rotation has more calls than that", deaths)
	}
	t.Logf("%d deaths", deaths)
}

// Rotations that must not start are rejected with a reason before any write.
func testRotationRefused(t *testing.T, on *testEnv) {
	for name, tc := range map[string]struct {
		make func(*simHost)
		says string
	}{
		"a Secret of several hosts": {func(m *simHost) { m.ready("other") }, "/other"},
		"a BMC of several hosts": {func(m *simHost) {
			m.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC.Address += m.lab.SystemPath() })
			secret := m.secret("second")
			m.create(secret)
			m.host("blade", func(h *infrav1.IngotHost) {
				h.Spec.BMC.Address, h.Spec.BMC.CredentialsRef.Name = m.lab.Address()+"/redfish/v1/Systems/other", "second"
			})
		}, "/blade"},
		"a BMC of another tenant": {func(m *simHost) {
			m.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC.Address += m.lab.SystemPath() })
			other := newFixture(m.t, on)
			other.ready("hidden", func(h *infrav1.IngotHost) { h.Spec.BMC.Address = m.lab.Address() + "/redfish/v1/Systems/other" })
		}, "a host of another namespace"},
		"a Secret that another controller keeps": {func(m *simHost) {
			secret := m.credentials()
			secret.OwnerReferences = append(secret.OwnerReferences, metav1.OwnerReference{
				APIVersion: "external-secrets.io/v1", Kind: "ExternalSecret", Name: "vault", UID: "1", Controller: ptr.To(true)})
			must(m.fixture, m.api.Update(m.ctx, secret))
		}, "ExternalSecret vault"},
		"an update of firmware": {func(m *simHost) {
			m.edit("h", func(h *infrav1.IngotHost) {
				h.Spec.Record = &infrav1.HostRecord{Preparation: &infrav1.HostPreparation{Update: &infrav1.FirmwareUpdate{
					Component: "BMC", Version: "2", StartTime: metav1.NewTime(m.clock.Now()), State: infrav1.UpdateAccepted}}}
			})
		}, "firmware update (BMC)"},
		"an immutable Secret": {func(m *simHost) {
			secret := m.credentials()
			secret.Immutable = ptr.To(true)
			must(m.fixture, m.api.Update(m.ctx, secret))
		}, "immutable"},
		"a Secret that is being deleted": {func(m *simHost) { must(m.fixture, m.api.Delete(m.ctx, m.credentials())) }, "is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSimHost(t, on, "standard")
			m.calm()
			tc.make(m)
			m.ask()
			m.settled("refused", m.done)
			if message := m.rotated(metav1.ConditionFalse, infrav1.ReasonRotationRejected); !strings.Contains(message, tc.says) {
				t.Errorf("message %q does not name %q", message, tc.says)
			}
			m.recordedOnce(infrav1.ReasonRotationRejected)
			m.namesNoTenant("h")
			if m.lab.Password() != canary || len(m.credentials().Data) != 2 {
				t.Error("something was changed")
			}
		})
	}
	propose := func(m *simHost) {
		secret := m.credentials()
		secret.Data[infrav1.SecretKeyNextPassword] = []byte("chosen-by-hand")
		must(m.fixture, m.api.Update(m.ctx, secret))
	}
	t.Run("a password of one's own, before it is asked for", func(t *testing.T) {
		m := newSimHost(t, on, "standard")
		m.calm()
		propose(m)
		for range 4 {
			m.clock.Step(m.timing().BMCBackoffMax)
			m.tick()
		}
		m.want("h", infrav1.HostCredentialsValidCondition, metav1.ConditionTrue, infrav1.ReasonCredentialsAccepted)
		if m.lab.Password() != canary || len(m.credentials().Data) != 3 {
			t.Error("something was changed")
		}
		m.ask()
		m.settled("rotated", m.done)
		if m.lab.Password() != "chosen-by-hand" || string(m.credentials().Data[infrav1.SecretKeyPassword]) != "chosen-by-hand" {
			t.Error("the BMC has not the password that was chosen")
		}
	})
	t.Run("a password of one's own for several hosts", func(t *testing.T) {
		m := newSimHost(t, on, "standard")
		m.calm()
		m.ready("other")
		propose(m)
		m.ask()
		m.settled("refused", m.done)
		m.rotated(metav1.ConditionFalse, infrav1.ReasonRotationRejected)
		if m.lab.Password() != canary || string(m.credentials().Data[infrav1.SecretKeyPassword]) != canary {
			t.Error("something was changed")
		}
	})
	t.Run("a pause", func(t *testing.T) { // I10
		m := newSimHost(t, on, "standard")
		m.calm()
		m.edit("h", func(h *infrav1.IngotHost) {
			h.Annotations = map[string]string{infrav1.RotateCredentialsAnnotation: commandAt(m.clock.Now()), clusterv1.PausedAnnotation: ""}
		})
		for range 3 {
			m.tick()
		}
		if m.lab.Password() != canary || len(m.credentials().Data) != 2 {
			t.Error("the password was changed during a pause")
		}
		m.edit("h", func(h *infrav1.IngotHost) { delete(h.Annotations, clusterv1.PausedAnnotation) })
		m.settled("rotated", m.done)
	})
}

// The condition shows the BMC's failure, and the valid password is known.
func testRotationFails(t *testing.T, on *testEnv) {
	for name, tc := range map[string]struct {
		faults labbmc.Faults
		new    bool // the new password is valid in the end
		says   string
	}{
		"no accounts":              {faults: labbmc.Faults{Match: isAccountRead, Status: http.StatusNotFound}, says: "AccountService"},
		"declined":                 {faults: labbmc.Faults{Match: isAccount, Status: http.StatusBadRequest}, says: "400"},
		"the answer is lost":       {faults: labbmc.Faults{Match: isAccount, LoseReply: true}, new: true},
		"the request is lost":      {faults: labbmc.Faults{Match: isAccount, Drop: true}, says: "unknown"},
		"it says yes and does not": {faults: labbmc.Faults{Match: isAccount, Body: "{}"}, says: "a login with the new password failed"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newSimHost(t, on, "standard")
			m.calm()
			m.lab.SetFaults(tc.faults)
			m.ask()
			m.settled("over", m.done)
			data := m.credentials().Data
			if (m.lab.Password() != canary) != tc.new || string(data["password"]) != m.lab.Password() {
				t.Errorf("the BMC has a new password: %v; it is the Secret's: %v", m.lab.Password() != canary, string(data["password"]) == m.lab.Password())
			}
			if tc.new {
				m.rotated(metav1.ConditionTrue, infrav1.ReasonCredentialsRotated)
				return
			}
			if message := m.rotated(metav1.ConditionFalse, infrav1.ReasonRotationFailed); !strings.Contains(message, tc.says) {
				t.Errorf("message %q does not say %q", message, tc.says)
			}
			m.recordedOnce(infrav1.ReasonRotationFailed)
			m.want("h", infrav1.HostCredentialsValidCondition, metav1.ConditionTrue, infrav1.ReasonCredentialsAccepted)
		})
	}
	t.Run("both are rejected until an operator acts", func(t *testing.T) {
		m := newSimHost(t, on, "standard")
		m.calm()
		m.lab.SetFaults(labbmc.Faults{Match: isLogin, Status: http.StatusUnauthorized}, labbmc.Faults{Match: isAccount, LoseReply: true})
		m.ask()
		stuck := func(h *infrav1.IngotHost) bool {
			c := conditions.Get(h, infrav1.HostCredentialsRotatedCondition)
			return c != nil && c.Reason == infrav1.ReasonRotationStuck
		}
		m.settled("stuck", stuck)
		for range 6 {
			m.clock.Step(m.timing().BMCBackoffMax)
			m.tick() // two tries at each; never two wrong ones at once
		}
		m.want("h", infrav1.HostCredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected)
		if !rotation.IsPending(m.get("h"), m.credentials()) {
			t.Error("a password was thrown away that may be the BMC's")
		}
		m.lab.SetFaults(labbmc.Faults{}) // the lock is over
		m.settled("rotated", m.done)
		m.rotated(metav1.ConditionTrue, infrav1.ReasonCredentialsRotated)
	})
	t.Run("called off", func(t *testing.T) {
		m := newSimHost(t, on, "standard")
		m.calm()
		m.lab.SetFaults(labbmc.Faults{Match: isAccount, Status: http.StatusServiceUnavailable})
		m.ask()
		m.tick()
		if !rotation.IsPending(m.get("h"), m.credentials()) {
			t.Fatal("not under way")
		}
		m.rotated(metav1.ConditionFalse, infrav1.ReasonCredentialsRotating)
		m.edit("h", func(h *infrav1.IngotHost) { h.Annotations = nil })
		m.settled("over", m.done)
		if message := m.rotated(metav1.ConditionFalse, infrav1.ReasonRotationFailed); !strings.Contains(message, "the annotation was removed") {
			t.Errorf("message %q", message)
		}
	})
}

func isAccountRead(method, path string) bool {
	return method == http.MethodGet && strings.Contains(path, "/AccountService")
}

func isLogin(method, path string) bool {
	return method == http.MethodPost && strings.HasSuffix(path, "/Sessions")
}

// I18: a changed Secret is used at once, and its session replaces the old one.
func testNewCredentials(t *testing.T, on *testEnv) {
	m := newSimHost(t, on, "standard")
	m.calm()
	opened := m.lab.OpenedSessions()
	m.tick()
	if m.lab.OpenedSessions() != opened {
		t.Fatal("a session is opened at every poll, so that nothing is shown here")
	}
	const other = "CANARY-0816-bmc-password"
	m.lab.SetPassword(other) // an operator changed it at the BMC
	secret := m.credentials()
	secret.Data[infrav1.SecretKeyPassword] = []byte(other)
	must(m.fixture, m.api.Update(m.ctx, secret))
	m.tick()
	if m.lab.OpenedSessions() != opened+1 || m.lab.Sessions() != 1 || m.lab.PeakSessions() != 1 {
		t.Errorf("%d sessions opened, %d open, %d at most, want one more, one and one",
			m.lab.OpenedSessions()-opened, m.lab.Sessions(), m.lab.PeakSessions())
	}
	m.want("h", infrav1.HostCredentialsValidCondition, metav1.ConditionTrue, infrav1.ReasonCredentialsAccepted)
}

// A Secret with a generated password is not deleted with its host.
func testSecretWithGeneratedPasswordIsKept(t *testing.T, on *testEnv) {
	for name, rotated := range map[string]bool{"as a person made it": false, "rotated": true} {
		t.Run(name, func(t *testing.T) {
			m := newSimHost(t, on, "standard")
			m.calm()
			if rotated {
				m.ask()
				m.settled("rotated", m.done)
			}
			if owned := len(m.credentials().OwnerReferences) == 1; owned == rotated {
				t.Fatalf("the Secret is the host's: %t", owned)
			}
			must(m.fixture, m.api.Delete(m.ctx, m.get("h")))
			for range 5 {
				m.tick()
			}
			if m.get("h") != nil {
				t.Fatal("the host is not gone")
			}
			if kept := len(m.credentials().OwnerReferences) == 0; kept != rotated {
				t.Errorf("the Secret is kept: %v, want %v", kept, rotated)
			}
		})
	}
}

// IPMI passwords have 16 bytes, which every BMC supports, and are verified.
func testRotationIPMI(t *testing.T, on *testEnv) {
	const old = "CANARY-0817"
	y := newFixture(t, on)
	lab, err := labipmi.Start(labipmi.Config{Machine: &labbmc.Bench{}, Username: "root", Password: old})
	must(y, err)
	t.Cleanup(func() { _ = lab.Close() })
	pool := bmc.NewPool(ipmi.Dial, bmc.PoolOptions{})
	t.Cleanup(func() { _ = pool.Close(context.Background()) })
	y.BMC = pool
	secret := y.secret("bmc")
	secret.Data[infrav1.SecretKeyPassword] = []byte(old)
	y.create(secret)
	y.host("h", func(h *infrav1.IngotHost) {
		h.Spec.BMC.Address, h.Spec.Maintenance = lab.Address(), ptr.To(true)
		h.Annotations = map[string]string{infrav1.RotateCredentialsAnnotation: commandAt(y.clock.Now())}
	})
	y.until("h", "rotated", func(h *infrav1.IngotHost) bool {
		_, asked := h.Annotations[infrav1.RotateCredentialsAnnotation]
		return !asked
	})
	y.want("h", infrav1.HostCredentialsRotatedCondition, metav1.ConditionTrue, infrav1.ReasonCredentialsRotated)
	must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(secret), secret))
	target := bmc.Target{Address: lab.Address(), Username: "root", Password: bmc.Password(secret.Data[infrav1.SecretKeyPassword])}
	if n := len(target.Password.Reveal()); n != rotation.LengthIPMI || len(secret.Data) != 2 {
		t.Errorf("a password of %d bytes, %d keys", n, len(secret.Data))
	}
	conn, err := ipmi.Dial(t.Context(), target)
	must(y, err)
	must(y, conn.Close(t.Context()))
	target.Password = old
	if conn, err := ipmi.Dial(t.Context(), target); !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("the old password still holds: %v, %v", conn, err)
	}
}
