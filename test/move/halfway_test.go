// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/update"
)

// This file is what is half done when a move begins, and what a host only remembers:
// the pin of a first use, an update of firmware, a new password that the BMC has taken
// and nobody has proven.

// The hosts at which it is so.
const (
	pinned   = "pinned"
	updating = "updating"
	rotating = "rotating"
)

// rotatingSecret is the host's own.
const rotatingSecret = "bmc-rotating"

// halfway registers the hosts.
func (y *yard) halfway(p *plane) []*infrav1.IngotHost {
	y.t.Helper()
	inspected := &infrav1.HostRecord{InspectedTime: past()}

	pin := y.add(pinned, &labbmc.Bench{})
	pin.Spec.Record = inspected
	pin.Spec.BMC.CABundleRef, pin.Spec.BMC.TrustOnFirstUse = nil, ptr.To(true)

	image := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(update.Image("BIOS", "9.9")) }))
	y.t.Cleanup(image.Close)
	flash := y.add(updating, &labbmc.Bench{})
	flash.Spec.Record = inspected
	flash.Spec.Firmware = []infrav1.FirmwareComponent{{Component: "BIOS", Version: "9.9", URL: image.URL + "/BIOS-9.9"}}
	y.bmcs[updating].SetFaults(labbmc.Faults{Match: isTask, Body: `{"TaskState": "Running", "TaskStatus": "OK", "PercentComplete": 40}`})

	p.create(secretOf(rotatingSecret))
	rotate := y.add(rotating, &labbmc.Bench{})
	rotate.Spec.Record = inspected
	rotate.Spec.BMC.CredentialsRef.Name = rotatingSecret
	return []*infrav1.IngotHost{pin, flash, rotate}
}

func isTask(method, path string) bool {
	return method == http.MethodGet && strings.Contains(path, "/Tasks/")
}

func isLogin(method, path string) bool {
	return method == http.MethodPost && strings.HasSuffix(path, "/Sessions")
}

func secretOf(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{infrav1.BMCCredentialsDeleteLabel: ""}},
		Data: map[string][]byte{infrav1.SecretKeyUsername: []byte("root"), infrav1.SecretKeyPassword: []byte(oldPassword)}}
}

// beginHalfway has the update accepted, and the BMC's password changed by a BMC that
// lets nobody in from then on.
func (y *yard) beginHalfway(p *plane) {
	y.t.Helper()
	y.bmcs[rotating].SetFaults(labbmc.Faults{Match: isLogin, Status: http.StatusServiceUnavailable})
	host := p.hosts()[rotating]
	base := host.DeepCopy()
	host.Annotations[infrav1.RotateCredentialsAnnotation] = time.Now().UTC().Format(time.RFC3339)
	if err := p.client.Patch(y.t.Context(), host, client.MergeFrom(base)); err != nil {
		y.t.Fatal(err)
	}
	p.until("half done", func() string {
		c := conditions.Get(p.hosts()[rotating], infrav1.HostCredentialsRotatedCondition)
		if y.bmcs[rotating].Password() == oldPassword || c == nil || c.Reason != infrav1.ReasonCredentialsRotating {
			return fmt.Sprintf("a password rotated: %+v", c)
		}
		host := p.hosts()[updating]
		if update := updateOf(host); update == nil || update.State != infrav1.UpdateAccepted || update.TaskID == "" {
			return fmt.Sprintf("an update begun: %+v: %s", update, conditions.GetMessage(host, infrav1.ReadyCondition))
		}
		return ""
	})
}

func updateOf(host *infrav1.IngotHost) *infrav1.FirmwareUpdate {
	if host.Spec.Record == nil || host.Spec.Record.Preparation == nil {
		return nil
	}
	return host.Spec.Record.Preparation.Update
}

// pinOf is what a management cluster knows of the certificate.
func pinOf(p *plane) *infrav1.PinnedBMC {
	facts := &infrav1.IngotHardware{}
	p.get(facts, pinned)
	return facts.Spec.BMC
}

// carried: what is half done is all there when it has arrived, and the CA with it; what
// each cluster has of its own was neither taken along nor written over.
func (s *story) carried() {
	s.t.Helper()
	if s.pin == nil || !cmp.Equal(s.pin, pinOf(s.target)) {
		s.t.Errorf("the pin is %+v, was %+v", pinOf(s.target), s.pin)
	}
	if s.first {
		if update := updateOf(s.target.hosts()[updating]); update == nil || update.TaskID == "" {
			s.t.Errorf("the update is %+v", update)
		}
		secret := &corev1.Secret{}
		if !s.target.get(secret, rotatingSecret) || string(secret.Data[infrav1.SecretKeyPassword]) != oldPassword ||
			string(secret.Data[infrav1.SecretKeyNextPassword]) != s.metal.bmcs[rotating].Password() {
			s.t.Errorf("the Secret of the rotation has arrived with %d keys, and not with both passwords", len(secret.Data))
		}
	}
	ca, own := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	if !s.target.get(ca, "bmc-ca") || len(ca.OwnerReferences) > 0 || ca.Data[infrav1.CAKey] != string(s.metal.ca.PEM()) {
		s.t.Errorf("the CA has not arrived as it was: owners %+v", ca.OwnerReferences)
	}
	if !s.target.get(own, infrav1.RootCAConfigMap) || own.Data["of"] != s.target.name {
		s.t.Errorf("the target's own CA was written over: it is that of %q", own.Data["of"])
	}
}

// halfwayGoesOn: the BMCs come to their senses, and all comes to its end without
// anything being said to them twice.
func (s *story) halfwayGoesOn() {
	s.t.Helper()
	for _, name := range []string{updating, rotating} {
		s.metal.bmcs[name].SetFaults()
	}
	s.target.until("done with the update", func() string {
		told := s.metal.actions()[updating][len(s.told[updating]):]
		want := restarted()
		if s.first { // it was off: a boot is what the update waits for
			want = want[1:]
		}
		if !slices.Equal(told, want) {
			return fmt.Sprintf("told %q, want %q", told, want)
		}
		if bios, _ := s.metal.bmcs[updating].Firmware(); bios != "9.9" {
			return "installed: " + bios
		}
		return ""
	})
	s.target.until("done with the rotation", func() string {
		secret := &corev1.Secret{}
		s.target.get(secret, rotatingSecret)
		_, pending := secret.Data[infrav1.SecretKeyNextPassword]
		host := s.target.hosts()[rotating]
		if pending || string(secret.Data[infrav1.SecretKeyPassword]) != s.metal.bmcs[rotating].Password() ||
			!conditions.IsTrue(host, infrav1.HostCredentialsRotatedCondition) || !conditions.IsTrue(host, infrav1.HostCredentialsValidCondition) {
			return fmt.Sprintf("pending %t, conditions %+v", pending, host.Status.Conditions)
		}
		return ""
	})
	for name, what := range map[string]string{updating: "/UpdateService", rotating: "/Accounts/"} {
		if said := s.metal.asked(name, what); said != 1 {
			s.t.Errorf("the BMC of %s was told %d times through %s, want once", name, said, what)
		}
	}
	if probes := s.target.probes.Load(); s.first && probes != 0 {
		s.t.Errorf("the target looked at certificates %d times, and may have pinned another", probes)
	}
}

// asked counts the writes to a service of a BMC, whatever came of them.
func (y *yard) asked(name, service string) (n int) {
	for _, w := range y.bmcs[name].Writes() {
		if strings.Contains(w.Path, service) {
			n++
		}
	}
	return n
}

// caStays checks what the source keeps: its own CA, and nothing of the hosts'.
func (s *story) caStays() {
	s.t.Helper()
	own := &corev1.ConfigMap{}
	if !s.source.get(own, infrav1.RootCAConfigMap) || own.Data["of"] != s.source.name {
		s.t.Error("the source's own CA is gone")
	}
	if s.source.get(&corev1.ConfigMap{}, "bmc-ca") {
		s.t.Error("the CA of the BMCs is left on the source")
	}
}

// namespaces makes the namespace, with what kube-controller-manager, which does not run
// here, publishes in it; here it is good for BMCs, too.
func (y *yard) namespaces(p *plane) {
	y.t.Helper()
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	p.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: infrav1.RootCAConfigMap},
		Data: map[string]string{infrav1.CAKey: string(y.ca.PEM()), "of": p.name}})
}

// owned says what is wrong with the owners and labels of what hosts name.
func owned(p *plane) string {
	p.t.Helper()
	secret, ca, own := &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.ConfigMap{}
	if !p.get(secret, "bmc") || len(secret.OwnerReferences) != len(phases())-1 { // one has its own
		return fmt.Sprintf("the Secret has %d owners", len(secret.OwnerReferences))
	}
	for object, moves := range map[*corev1.ConfigMap]bool{ca: true, own: false} {
		name := infrav1.RootCAConfigMap
		if moves {
			name = "bmc-ca"
		}
		found := p.get(object, name)
		if _, moved := object.Labels[clusterctlv1.ClusterctlMoveLabel]; !found || moved != moves || len(object.OwnerReferences) > 0 {
			return fmt.Sprintf("%s: there %t, moved %t, owners %d", name, found, moved, len(object.OwnerReferences))
		}
	}
	return ""
}
