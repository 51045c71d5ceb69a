// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestPinOf(t *testing.T) {
	for name, tc := range map[string]struct {
		pinned, now string
		want        bool
	}{
		"as it was":             {"redfish://10.0.0.9", "redfish://10.0.0.9", true},
		"the port written out":  {"redfish://10.0.0.9", "redfish://10.0.0.9:443", true},
		"another system":        {"redfish://bmc.example/redfish/v1/Systems/1", "redfish://BMC.example/redfish/v1/Systems/2", true},
		"another way to it":     {"redfish://10.0.0.9", "10.0.0.9", true},
		"another port":          {"redfish://10.0.0.9", "redfish://10.0.0.9:8443", false},
		"AMT has its own":       {"vendor+intelamt://10.0.0.9", "redfish://10.0.0.9", false},
		"AMT, written out":      {"vendor+intelamt://10.0.0.9", "vendor+intelamt://10.0.0.9:16993", true},
		"another host":          {"redfish://10.0.0.9", "redfish://10.0.0.8", false},
		"IPv6 in another form":  {"redfish://[2001:db8:0::9]", "redfish://[2001:db8::9]", true},
		"without a certificate": {"redfish://10.0.0.9", "ipmi://10.0.0.9", false},
		"what makes no sense":   {"redfish://10.0.0.9", "://", false},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{Spec: infrav1.IngotHostSpec{BMC: &infrav1.BMC{Address: tc.now}}}
			facts := &infrav1.IngotHardware{Spec: infrav1.IngotHardwareSpec{BMC: &infrav1.PinnedBMC{Address: tc.pinned, CertificateFingerprint: "sha256:x"}}}
			if got := pinOf(host, facts) != ""; got != tc.want {
				t.Errorf("the pin of %s counts for %s: %v, want %v", tc.pinned, tc.now, got, tc.want)
			}
		})
	}
	if got := pinOf(&infrav1.IngotHost{}, nil); got != "" {
		t.Errorf("a pin %q of nothing", got)
	}
}

// What holds a key or a token stays where it is.
func TestMayMove(t *testing.T) {
	for kind, want := range map[corev1.SecretType]bool{"": true, corev1.SecretTypeOpaque: true, corev1.SecretTypeTLS: false, corev1.SecretTypeServiceAccountToken: false, "example.com/mine": false} {
		if got := mayMove(&corev1.Secret{Type: kind, Data: map[string][]byte{infrav1.CAKey: []byte("pem")}}); got != want {
			t.Errorf("a Secret of type %q travels: %t, want %t", kind, got, want)
		}
	}
}
