// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// An install with Ignition data gives the agent a current configuration with Ingot's additions. While the
// data is invalid, since it was changed, the agent waits. No message contains any of it.
func TestBootstrapForIgnition(t *testing.T) {
	for name, c := range map[string]struct{ value, refusal string }{
		"what the kubeadm provider writes": {`{"ignition":{"version":"2.3.0"},"systemd":{"units":[{"name":"kubeadm.service","enabled":true}]}}`, ""},
		"version 3":                        {`{"ignition":{"version":"3.4.0"}}`, ""},
		"no configuration":                 {"#cloud-config\n" + canary, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := world()
			for _, o := range objects {
				if secret, ok := o.(*corev1.Secret); ok {
					secret.Data["format"], secret.Data["value"] = []byte("ignition"), []byte(c.value)
				}
			}
			s := newSite(t, objects...)
			a := s.agent(claimsOf(token.Install), here)
			if reason := a.open(); reason != "" {
				t.Fatalf("session refused: %s", reason)
			}
			data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest())
			if c.refusal != "" {
				if reason != agentapi.ReasonNotReady || data.UserData != "" {
					t.Errorf("refusal %q, want %s", reason, agentapi.ReasonNotReady)
				}
				if !s.eventWith(infrav1.ReasonBootstrapDataInvalid) || !strings.Contains(strings.Join(s.seen, "\n"), c.refusal) {
					t.Errorf("no event says %q: %q", c.refusal, s.seen)
				}
				s.mend(`{"ignition":{"version":"3.4.0"}}`)
				if _, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest()); reason != "" {
					t.Errorf("once mended: %s", reason)
				}
				return
			}
			if reason != "" || data.Format != agentapi.FormatIgnition {
				t.Fatalf("format %q, refusal %q", data.Format, reason)
			}
			var config struct {
				Ignition struct {
					Config struct{ Merge []struct{ Source string } }
				}
				Storage struct{ Files []struct{ Path string } }
			}
			if err := json.Unmarshal([]byte(data.UserData.Reveal()), &config); err != nil {
				t.Fatal(err)
			}
			var paths []string
			for _, f := range config.Storage.Files {
				paths = append(paths, f.Path)
			}
			if got := strings.Join(paths, " "); got != "/etc/hostname /etc/ingot/metadata /var/lib/ingot/seed.sh" || len(config.Ignition.Config.Merge) != 1 {
				t.Errorf("files %s, %d configurations merged", got, len(config.Ignition.Config.Merge))
			}
		})
	}
}

// mend replaces the bootstrap data.
func (s *site) mend(value string) {
	s.t.Helper()
	secret := &corev1.Secret{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "metal", Name: "bootstrap"}, secret); err != nil {
		s.t.Fatal(err)
	}
	secret.Data["value"] = []byte(value)
	if err := s.client.Update(s.t.Context(), secret); err != nil {
		s.t.Fatal(err)
	}
}

// A live system whose data became invalid after its start must retry, and gets the corrected data.
func TestLiveDataIsMended(t *testing.T) {
	objects := append(world(lives), recorded(here))
	for _, o := range objects {
		if secret, ok := o.(*corev1.Secret); ok {
			secret.Data["format"], secret.Data["value"] = []byte("ignition"), []byte(`{"ignition":{"version":"3.4.0"}}`)
		}
	}
	s := newSite(t, objects...)
	data := word(t, s.loaded(s.agent(claimsOf(token.Install), here)), "data=")
	s.mend("#cloud-config\n# " + canary)
	if code, _ := s.get(data, here); code != http.StatusServiceUnavailable || s.host().Spec.Claim.LiveFetch != nil {
		t.Errorf("spoilt: answered %d", code)
	}
	s.mend(`{"ignition":{"version":"3.3.0"}}`)
	if code, body := s.get(data, here); code != http.StatusOK || body != `{"ignition":{"version":"3.3.0"}}` {
		t.Errorf("mended: answered %d", code)
	}
}

// A live system gets a current configuration without additions: it may only install another system.
// Invalid data starts no live system.
func TestLiveSystemByIgnition(t *testing.T) {
	for name, c := range map[string]struct{ value, want string }{
		"version 2":  {`{"ignition":{"version":"2.3.0"}}`, `{"ignition":{"version":"3.1.0"}}`},
		"version 3":  {`{"ignition":{"version":"3.4.0"}}`, `{"ignition":{"version":"3.4.0"}}`},
		"unreadable": {"#cloud-config\n" + canary, ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(world(lives), recorded(here))
			for _, o := range objects {
				if secret, ok := o.(*corev1.Secret); ok {
					secret.Data["format"], secret.Data["value"] = []byte("ignition"), []byte(c.value)
				}
			}
			s := newSite(t, objects...)
			a := s.agent(claimsOf(token.Install), here)
			if c.want == "" {
				if reason := a.open(); reason != "" {
					t.Fatalf("session refused: %s", reason)
				}
				if _, reason := call[agentapi.LiveBoot](a, agentapi.PathLive, agentapi.LiveRequest{OrderID: orderID}); reason != agentapi.ReasonNotReady {
					t.Errorf("refusal %q, want %s", reason, agentapi.ReasonNotReady)
				}
				if !s.eventWith(infrav1.ReasonBootstrapDataInvalid) {
					t.Errorf("no event: %q", s.seen)
				}
				return
			}
			if code, body := s.get(word(t, s.loaded(a), "data="), here); code != http.StatusOK || body != c.want {
				t.Errorf("%d: %s, want %s", code, body, c.want)
			}
		})
	}
}
