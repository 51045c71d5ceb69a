// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func zipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	must(t, err)
	must(t, w.Close())
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

func TestParseUserData(t *testing.T) {
	variables, err := instanceData("instance-id: i-1\nlocal-hostname: n1\nprovider_id: ingot://a/b/c\nnumber: 7\n")
	must(t, err)
	plain := base64.StdEncoding.EncodeToString([]byte("plain"))
	const run = "runcmd: ['kubeadm init --config /c']\n"
	for _, tc := range []struct {
		name, data string
		command    string
		files      map[string]string
		err        string
	}{
		{"jinja", "## template: jinja\n#cloud-config\n\nwrite_files:\n- {path: /a, content: '{{ ds.meta_data.provider_id }} {{v1.local_hostname}} {{- instance_id -}} {{ ds.meta_data[\"local-hostname\"] }}'}\n" + run,
			"init /c", map[string]string{"/a": "ingot://a/b/c n1 i-1 n1"}, ""},
		{"jinja without a value", "## template: jinja\n#cloud-config\nwrite_files:\n- {path: /a, content: '{{ ds.meta_data.nobody }}'}\n" + run,
			"init /c", map[string]string{"/a": "CI_MISSING_JINJA_VAR/nobody"}, ""},
		{"no header, no jinja", "#cloud-config\nwrite_files:\n- {path: /a, content: '{{ v1.local_hostname }}'}\n" + run,
			"init /c", map[string]string{"/a": "{{ v1.local_hostname }}"}, ""},
		{"unsupported jinja", "## template: jinja\n#cloud-config\n{% if a %}{% endif %}\n" + run, "", nil, "unsupported jinja"},
		{"encodings", "#cloud-config\nwrite_files:\n- {path: /a, encoding: base64, content: " + plain + "}\n- {path: /b, encoding: gzip+base64, content: " + zipped(t, "packed") +
			"}\n- {path: /c, encoding: gz+b64, content: " + zipped(t, "same") + "}\n- {path: /c, content: ' more', append: true}\n" + run,
			"init /c", map[string]string{"/a": "plain", "/b": "packed", "/c": "same more"}, ""},
		{"unknown encoding", "#cloud-config\nwrite_files:\n- {path: /a, encoding: rot13, content: x}\n" + run, "", nil, `unknown encoding "rot13"`},
		{"not base64", "#cloud-config\nwrite_files:\n- {path: /a, encoding: base64, content: '!'}\n" + run, "", nil, "/a"},
		{"words", "#cloud-config\nruncmd:\n- [sh, -c, x]\n- [kubeadm, join, --v=5, --config=/run/j.yaml]\n", "join /run/j.yaml", map[string]string{}, ""},
		{"a line of commands", "#cloud-config\nruncmd:\n- kubeadm join --config /run/j.yaml  && echo success > /run/x\n", "join /run/j.yaml", map[string]string{}, ""},
		{"no kubeadm", "#cloud-config\nruncmd: [kubeadm-nothing]\n", "", nil, errNoKubeadm.Error()},
		{"a script", "#!/bin/sh\nkubeadm init --config /c\n", "", nil, errNoKubeadm.Error()},
		{"no YAML", "#cloud-config\n\t:\n", "", nil, "cloud-config"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := parseUserData(tc.data, variables)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("error %v, want %q", err, tc.err)
				}
				return
			}
			must(t, err)
			files := map[string]string{}
			for path, content := range s.files {
				files[path] = string(content)
			}
			if diff := cmp.Diff(tc.files, files); diff != "" || s.command+" "+s.config != tc.command {
				t.Errorf("kubeadm %s %s, want %s; files (-want +got):\n%s", s.command, s.config, tc.command, diff)
			}
		})
	}
}

func TestParseKubeadm(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       kubeadmConfig
	}{
		{"list of arguments, since v1beta4", "---\nkind: ClusterConfiguration\nkubernetesVersion: v1.36.3\n---\nkind: InitConfiguration\nnodeRegistration:\n  kubeletExtraArgs:\n  - {name: a, value: b}\n  - {name: a, value: c}\n",
			kubeadmConfig{KubernetesVersion: "v1.36.3", clusterConfiguration: "kind: ClusterConfiguration\nkubernetesVersion: v1.36.3\n",
				NodeRegistration: nodeRegistration{KubeletExtraArgs: arguments{"a": "c"}}}},
		{"map of arguments, up to v1beta3", "kind: JoinConfiguration\nnodeRegistration:\n  name: node-1\n  kubeletExtraArgs: {a: b}\ncontrolPlane: {localAPIEndpoint: {bindPort: 1}}\n",
			kubeadmConfig{ControlPlane: &struct{}{}, NodeRegistration: nodeRegistration{Name: "node-1", KubeletExtraArgs: arguments{"a": "b"}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseKubeadm([]byte(tc.text))
			must(t, err)
			if diff := cmp.Diff(&tc.want, got, cmp.AllowUnexported(kubeadmConfig{})); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
	for _, bad := range []string{"kind: [", "kind: JoinConfiguration\nnodeRegistration: 7\n"} {
		if _, err := parseKubeadm([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestSkips(t *testing.T) {
	c := kubeadmConfig{SkipPhases: []string{"addon/coredns"}}
	if !c.skips("addon/coredns") || c.skips("addon/kube-proxy") {
		t.Error("a phase of an addon")
	}
	c.SkipPhases = []string{"addon"}
	if !c.skips("addon/coredns") || !c.skips("addon/kube-proxy") {
		t.Error("all addons")
	}
}

// FuzzParseUserData shows that the result is a script with a command, or an error.
func FuzzParseUserData(f *testing.F) {
	f.Add("## template: jinja\n#cloud-config\nwrite_files:\n- {path: /a, encoding: gz+b64, content: x}\nruncmd: ['kubeadm init --config /c']\n")
	f.Add("#cloud-config\nruncmd: [[kubeadm, join, --config, /c]]\n")
	f.Fuzz(func(t *testing.T, data string) {
		s, err := parseUserData(data, map[string]string{"v1.local_hostname": "n"})
		if err != nil {
			if s != nil {
				t.Error("a script and an error")
			}
			return
		}
		if s.command != "init" && s.command != "join" || s.config == "" {
			t.Errorf("script %+v", s)
		}
		if _, err := parseKubeadm(s.files[s.config]); err != nil && errors.Is(err, errNoKubeadm) {
			t.Error(err)
		}
	})
}
