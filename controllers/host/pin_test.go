// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/trust"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

func (m *simHost) facts() *infrav1.IngotHardware {
	m.t.Helper()
	facts := &infrav1.IngotHardware{}
	must(m.fixture, client.IgnoreNotFound(m.api.Get(m.ctx, client.ObjectKey{Namespace: m.ns, Name: "h"}, facts)))
	return facts
}

func (m *simHost) presents() string {
	m.t.Helper()
	fingerprint, err := trust.Probe(m.ctx, bmc.Target{}, strings.TrimPrefix(m.lab.Address(), "redfish://"))
	must(m.fixture, err)
	return fingerprint
}

func isReachable(h *infrav1.IngotHost) bool {
	return conditions.IsTrue(h, infrav1.HostBMCReachableCondition)
}

// The certificate is pinned before the first login, the pin survives a lost status, rejects another
// certificate, and is removed with the setting.
func testFirstUse(t *testing.T, on *testEnv) {
	m := newSimHost(t, on, "standard", firstUse)
	m.calm()
	first := m.presents()
	if pin := m.facts().Spec.BMC; pin == nil || *pin != (infrav1.PinnedBMC{Address: m.lab.Address(), CertificateFingerprint: first}) {
		t.Fatalf("pin %+v, want %s at %s", pin, first, m.lab.Address())
	}
	m.recordedOnce(infrav1.ReasonCertificatePinned)

	t.Log("another certificate, with the status lost and a new process")
	other, err := labbmc.NewAuthority()
	must(m.fixture, err)
	m.lab.SetAuthority(other)
	m.status("h", func(s *infrav1.IngotHostStatus) { *s = infrav1.IngotHostStatus{} })
	m.restart(0)
	opened := m.lab.OpenedSessions()
	for range 3 {
		m.tick()
	}
	message := m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonCertificateChanged).Message
	for _, want := range []string{m.presents(), "spec.bmc.certificateFingerprint", "drop trustOnFirstUse"} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q does not name %s", message, want)
		}
	}
	if m.lab.OpenedSessions() != opened || m.facts().Spec.BMC.CertificateFingerprint != first {
		t.Error("the new certificate was trusted")
	}

	t.Log("the remedy of the message")
	m.edit("h", func(h *infrav1.IngotHost) {
		h.Spec.BMC.TrustOnFirstUse, h.Spec.BMC.CertificateFingerprint = nil, m.presents()
	})
	m.settled("trusted", isReachable)
	if pin := m.facts().Spec.BMC; pin != nil {
		t.Errorf("pin %+v outlives its choice", pin)
	}
	m.lab.SetAuthority(m.ca)
	m.settled("changed back", func(h *infrav1.IngotHost) bool { return !isReachable(h) })
	if message := m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonCertificateChanged).Message; strings.Contains(message, "trustOnFirstUse") {
		t.Errorf("message %q names what is not set", message)
	}

	t.Log("first use again, and another address")
	m.edit("h", func(h *infrav1.IngotHost) {
		h.Spec.BMC.CertificateFingerprint, h.Spec.BMC.TrustOnFirstUse = "", ptr.To(true)
	})
	m.settled("trusted", isReachable)
	twin, err := labbmc.Start(labbmc.Config{Authority: other, Machine: &labbmc.Bench{}, Username: "root", Password: canary})
	must(m.fixture, err)
	defer func() { _ = twin.Close() }()
	m.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC.Address = twin.Address() })
	m.settled("trusted elsewhere", func(h *infrav1.IngotHost) bool { return isReachable(h) && m.facts().Spec.BMC.Address == twin.Address() })
	m.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC.Address = twin.Address() + "/redfish/v1/Systems/1" })
	m.tick()
	if pin := m.facts().Spec.BMC; pin.Address != twin.Address() {
		t.Errorf("the same BMC got another pin: %+v", pin)
	}
}

// firstUse sets the trust at first use.
func firstUse(h *infrav1.IngotHost) {
	h.Spec.BMC.InsecureSkipVerify, h.Spec.BMC.TrustOnFirstUse = nil, ptr.To(true)
}

// No certificate is pinned without an answer, and no crash leads to a login before the pin.
func testFirstUseFails(t *testing.T, on *testEnv) {
	t.Run("no answer", func(t *testing.T) {
		m := newSimHost(t, on, "standard", firstUse)
		_ = m.lab.Close()
		for range 3 {
			m.tick()
		}
		m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCUnreachable)
		if m.facts().Spec.BMC != nil {
			t.Error("a pin of nothing")
		}
	})
	t.Run("the process dies", func(t *testing.T) {
		for at := 1; ; at += deathsApart() {
			m := newSimHost(t, on, "standard", firstUse)
			m.restart(at)
			for range 4 {
				m.tick()
				if m.lab.OpenedSessions() > 0 && m.facts().Spec.BMC == nil {
					t.Fatalf("death %d: a login before the pin is written down", at)
				}
			}
			died := m.mort.dead()
			m.restart(0)
			m.calm()
			if pin := m.facts().Spec.BMC; pin == nil || pin.CertificateFingerprint != m.presents() {
				t.Fatalf("death %d: pin %+v", at, pin)
			}
			m.clear()
			_ = m.lab.Close()
			if !died {
				return
			}
		}
	})
}

// A CA in a Secret is watched. Messages distinguish a missing CA, an unknown CA and a wrong name.
func testCASecret(t *testing.T, on *testEnv) {
	m := newSimHost(t, on, "standard", func(h *infrav1.IngotHost) {
		h.Spec.BMC.InsecureSkipVerify = nil
		h.Spec.BMC.CABundleRef = &infrav1.CABundleReference{Name: "ca", Kind: infrav1.CABundleSecret}
	})
	for range 3 {
		m.tick()
	}
	if message := m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionUnknown, infrav1.ReasonCABundleMissing).Message; !strings.Contains(message, `Secret "ca" does not exist`) {
		t.Errorf("message %q", message)
	}
	other, err := labbmc.NewAuthority()
	must(m.fixture, err)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.ns, Name: "ca"}, Data: map[string][]byte{infrav1.CAKey: other.PEM()}}
	m.create(secret)
	m.tick()
	message := m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonCertificateInvalid).Message
	for _, want := range []string{"no trusted", m.presents(), "spec.bmc.caBundleRef"} {
		if !strings.Contains(message, want) {
			t.Errorf("message %q does not name %s", message, want)
		}
	}
	must(m.fixture, m.api.Get(m.ctx, client.ObjectKeyFromObject(secret), secret))
	if _, labelled := secret.Labels[infrav1.BMCCredentialsLabel]; !labelled {
		t.Errorf("the Secret is not watched: labels %v", secret.Labels)
	}
	secret.Data[infrav1.CAKey] = m.ca.PEM()
	must(m.fixture, m.api.Update(m.ctx, secret))
	m.tick()
	m.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
}
