// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// An invalid Ignition configuration holds no host and is shown. The machine continues once the
// Secret is corrected.
func testInvalidIgnition(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "bootstrap"}, Data: map[string][]byte{
		"format": []byte("ignition"),
		"value":  []byte(`{"ignition":{"version":"2.3.0","config":{"append":[{"source":"http://192.0.2.1/more"}]}}}`),
	}}
	s.create(secret)
	s.machine("m")
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonBootstrapDataInvalid, "names other configurations")
	if hosts := s.claimsOn("m"); len(hosts) != 0 || s.get("m").Spec.ProviderID != "" || len(s.selections.recent) != 0 {
		t.Errorf("%v is held; chosen: %v", hosts, s.selections.recent)
	}
	secret.Data["value"] = []byte(`{"ignition":{"version":"2.3.0"}}`)
	s.must(s.api.Update(s.ctx, secret))
	s.provision("m")
}

// softwareRAID with Ignition holds no host and is shown. The machine continues once the Secret is
// replaced.
func testMirrorWithIgnition(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	second := &infrav1.IngotHardware{}
	s.must(s.api.Get(s.ctx, s.key("h"), second))
	disk := second.Spec.Disks[0]
	disk.Name, disk.SerialNumber, disk.WWN = "/dev/sdb", "second", ""
	second.Spec.Disks = append(second.Spec.Disks, disk)
	s.must(s.api.Update(s.ctx, second))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "bootstrap"}, Data: map[string][]byte{
		"format": []byte("ignition"), "value": []byte(`{"ignition":{"version":"3.4.0"}}`),
	}}
	s.create(secret)
	s.machine("m", func(_ *clusterv1.Machine, m *infrav1.IngotMachine) {
		m.Spec.SoftwareRAID = &infrav1.SoftwareRAID{Level: infrav1.SoftwareRAIDLevel1}
	})
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonSoftwareRAIDWithIgnition, "instead of softwareRAID")
	if hosts := s.claimsOn("m"); len(hosts) != 0 || s.get("m").Spec.ProviderID != "" || len(s.selections.recent) != 0 {
		t.Errorf("%v is held; chosen: %v", hosts, s.selections.recent)
	}
	secret.Data = map[string][]byte{"value": []byte("#cloud-config\n")}
	s.must(s.api.Update(s.ctx, secret))
	s.provision("m")
}

// secretReads counts the live reads of Secrets.
type secretReads struct {
	client.Reader
	n int
}

func (r *secretReads) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if _, ok := into.(*corev1.Secret); ok {
		r.n++
	}
	return r.Reader.Get(ctx, key, into, opts...)
}

// A waiting machine reads its bootstrap Secret once in a while, and again before the intent is
// written.
func testFormatIsReadOnce(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	live := &secretReads{Reader: s.Live}
	s.Live = live
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "bootstrap"}, Data: map[string][]byte{"value": []byte("#cloud-config\n")}}
	s.create(secret)
	s.network()
	s.machine("m", onBootNIC(infrav1.LinkAddress{Source: infrav1.AddressRecorded}))
	s.settle("m")
	for range 5 {
		s.step("m")
	}
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNoMatchingHost, "")
	if live.n != 1 {
		t.Errorf("the Secret was read %d times, want once", live.n)
	}
	s.clock.Step(formatMemory)
	s.step("m")
	if live.n != 2 {
		t.Errorf("the Secret was read %d times after a while, want twice", live.n)
	}
	secret.Data = map[string][]byte{"format": []byte("ignition"), "value": []byte(`{"ignition":{"version":"3.4.0"}}`)}
	s.must(s.api.Update(s.ctx, secret))
	s.host("h", "a")
	s.nics("h")
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonNetworkDataWithIgnition, "Configure the network in Ignition")
	if hosts := s.claimsOn("m"); len(hosts) != 0 || len(s.selections.recent) != 0 {
		t.Errorf("%v is held; chosen: %v", hosts, s.selections.recent)
	}
}
