// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"bytes"
	"compress/gzip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// The agent gets the format of the bootstrap data.
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
			data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest())
			if reason != "" || data.Format != c.want || data.UserData == "" {
				t.Errorf("format %q, want %q, refusal %q", data.Format, c.want, reason)
			}
		})
	}
}

// Gzipped data arrives unpacked. Data that is not text never leaves the Secret, and an event names the
// machine.
func TestBootstrapDataIsText(t *testing.T) {
	const text = "#cloud-config\n# " + canary
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		value   []byte
		refused bool
	}{
		"plain":     {[]byte(text), false},
		"gzip":      {packed.Bytes(), false},
		"not UTF-8": {[]byte(text + "\xff"), true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := world()
			for _, o := range objects {
				if secret, ok := o.(*corev1.Secret); ok {
					secret.Data["value"] = c.value
				}
			}
			s := newSite(t, objects...)
			a := s.agent(claimsOf(token.Install), here)
			if reason := a.open(); reason != "" {
				t.Fatalf("session refused: %s", reason)
			}
			data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest())
			if c.refused {
				if reason != agentapi.ReasonNotReady || data.UserData != "" || !s.eventWith(infrav1.ReasonBootstrapDataInvalid) {
					t.Errorf("refusal %q, %q", reason, s.seen)
				}
				return
			}
			if reason != "" || data.UserData.Reveal() != text {
				t.Errorf("refusal %q, and not what was packed", reason)
			}
		})
	}
}
