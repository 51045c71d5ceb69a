// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// An Ignition configuration that no system reads holds no host, not even for others, and
// the machine says what is wrong with it. It goes on once the Secret is mended.
func testIgnitionUnreadable(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
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
	if hosts := s.claimsOn("m"); len(hosts) != 0 || s.get("m").Spec.ProviderID != "" || len(s.picks.recent) != 0 {
		t.Errorf("%v is held; chosen: %v", hosts, s.picks.recent)
	}
	secret.Data["value"] = []byte(`{"ignition":{"version":"2.3.0"}}`)
	s.must(s.api.Update(s.ctx, secret))
	s.provision("m")
}
