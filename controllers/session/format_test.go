// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/controllers/token"
)

// The agent is told the format that the bootstrap provider has given its data.
func TestFormatOfBootstrapData(t *testing.T) {
	for name, c := range map[string]struct{ secret, want string }{
		"none":         {"", ""},
		"cloud-config": {"cloud-config", agentapi.FormatCloudConfig},
		"Ignition":     {"ignition", agentapi.FormatIgnition},
	} {
		t.Run(name, func(t *testing.T) {
			objects := world()
			for _, o := range objects {
				if secret, ok := o.(*corev1.Secret); ok && c.secret != "" {
					secret.Data["format"] = []byte(c.secret)
					if c.secret == agentapi.FormatIgnition {
						secret.Data["value"] = []byte(`{"ignition":{"version":"3.0.0"}}`)
					}
				}
			}
			s := newSite(t, objects...)
			a := s.agent(claimsOf(token.Install), here)
			if reason := a.open(); reason != "" {
				t.Fatalf("session refused: %s", reason)
			}
			data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: orderID})
			if reason != "" || data.Format != c.want || data.UserData == "" {
				t.Errorf("format %q, want %q, refusal %q", data.Format, c.want, reason)
			}
		})
	}
}
