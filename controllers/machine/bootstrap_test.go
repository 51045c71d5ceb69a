// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"bytes"
	"compress/gzip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/bootstrap"
)

// Data for a disk must be text. A live system gets the data unchanged, and Ignition data is
// validated in either case.
func TestValidateBootstrapData(t *testing.T) {
	for name, c := range map[string]struct {
		value, format string
		live, want    bool
	}{
		"cloud-config":            {"#cloud-config\n", "", false, true},
		"no text":                 {"\xff", "", false, false},
		"no text, live":           {"\xff", "", true, true},
		"no text, live, Ignition": {"\xff", agentapi.FormatIgnition, true, false},
		"Ignition":                {`{"ignition":{"version":"3.4.0"}}`, agentapi.FormatIgnition, false, true},
		"invalid Ignition":        {"#cloud-config\n", agentapi.FormatIgnition, false, false},
	} {
		secret := &corev1.Secret{Data: map[string][]byte{bootstrap.ValueKey: []byte(c.value), bootstrap.FormatKey: []byte(c.format)}}
		if err := validate(secret, c.live); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Data that is not text selects no host. Text under gzip is valid.
func testBootstrapDataMustBeText(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "a")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "bootstrap"}, Data: map[string][]byte{
		"value": []byte("#cloud-config\n# gr\xf6\xdfer\n"),
	}}
	s.create(secret)
	s.machine("m")
	s.settle("m")
	s.want("m", infrav1.MachineHostClaimedCondition, isFalse, infrav1.ReasonBootstrapDataInvalid, "must be UTF-8")
	if hosts := s.claimsOn("m"); len(hosts) != 0 || s.get("m").Spec.ProviderID != "" {
		t.Errorf("%v is held", hosts)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("#cloud-config\n")); err != nil {
		t.Fatal(err)
	}
	s.must(w.Close())
	secret.Data["value"] = packed.Bytes()
	s.must(s.api.Update(s.ctx, secret))
	s.provision("m")
}
