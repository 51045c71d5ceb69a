// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/controllers/token"
)

// An install with Ignition's data gives the agent what an Ignition of today reads, with
// what Ingot tells the system; data that it cannot read is refused for good, by a message
// without any of it.
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
			data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: orderID})
			if c.refusal != "" {
				if reason != agentapi.ReasonBadRequest || data.UserData != "" {
					t.Errorf("refusal %q, want %s", reason, agentapi.ReasonBadRequest)
				}
				s.noCanary()
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

// A live system gets what an Ignition of today reads, and nothing added: it may be one
// that only installs another. Data that none reads starts no live system.
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
				if _, reason := call[agentapi.LiveBoot](a, agentapi.PathLive, agentapi.LiveRequest{OrderID: orderID}); reason != agentapi.ReasonBadRequest {
					t.Errorf("refusal %q, want %s", reason, agentapi.ReasonBadRequest)
				}
				s.noCanary()
				return
			}
			if code, body := s.get(word(t, s.loaded(a), "data="), here); code != http.StatusOK || body != c.want {
				t.Errorf("%d: %s, want %s", code, body, c.want)
			}
		})
	}
}
