// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestHierarchies(t *testing.T) {
	tests := map[string]struct {
		mounts string
		want   []string
	}{
		"versions 1 and 2": {
			mounts: "proc /proc proc rw 0 0\n" +
				"tmpfs /sys/fs/cgroup tmpfs rw 0 0\n" +
				"cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n" +
				"cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n" +
				"cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n",
			want: []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/unified"},
		},
		"only version 2, mounted twice": {
			mounts: "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
			want:   []string{"/sys/fs/cgroup"},
		},
		"none": {mounts: "proc /proc proc rw 0 0\n\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, hierarchies([]byte(test.mounts))); diff != "" {
				t.Errorf("hierarchies (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRemoveGroups shows that a group is removed with its children, and that a missing group is no
// error.
func TestRemoveGroups(t *testing.T) {
	root := t.TempDir()
	groups := &cgroups{dirs: []string{filepath.Join(root, "a"), filepath.Join(root, "b")}}
	if err := os.MkdirAll(filepath.Join(root, "a", "kubepods", "burstable"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := groups.remove(t.Context()); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestGroupOfKilledNode shows that the unused group of a killed node is replaced.
func TestGroupOfKilledNode(t *testing.T) {
	root := t.TempDir()
	left := filepath.Join(root, "ingot-node0", "kubepods")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	groups := &cgroups{}
	if err := groups.add(filepath.Dir(left), root); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old group still exists: %v", err)
	}
	// A file blocks the removal of a directory as a process blocks that of a control group.
	if err := os.WriteFile(filepath.Join(root, "ingot-node0", "busy"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := groups.add(filepath.Dir(left), root); err == nil {
		t.Error("a group in use was replaced")
	}
}

func TestSandboxRejectsHiddenDirectories(t *testing.T) {
	for _, dir := range []string{"/run", "/var/lib/x", "/var/run/x", "/var/log/x/y"} {
		if _, err := newSandbox(t.Context(), dir, "/pause"); err == nil || !strings.Contains(err.Error(), "TMPDIR") {
			t.Errorf("newSandbox in %s = %v, want an error", dir, err)
		}
	}
}

// TestSettings shows that every file is rendered in its format.
func TestSettings(t *testing.T) {
	s := settings{
		Dir: t.TempDir(), Name: "management", CgroupRoot: "/ingot-node0",
		Shim: "/cache/shim", Runc: "/usr/sbin/runc", Plugins: pluginDir, PauseImage: pauseImage, NameServer: nameServer, KeepOOMScore: true,
	}
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(s.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	var kubelet struct{ CgroupRoot, ContainerRuntimeEndpoint, ResolvConf string }
	if err := yaml.UnmarshalStrict(only(t, read("kubelet.yaml"), "cgroupRoot", "containerRuntimeEndpoint", "resolvConf"), &kubelet); err != nil {
		t.Fatal(err)
	}
	if kubelet.CgroupRoot != s.CgroupRoot || kubelet.ContainerRuntimeEndpoint != "unix://"+s.Dir+"/containerd.sock" || kubelet.ResolvConf != filepath.Join(s.Dir, "resolv.conf") {
		t.Errorf("kubelet.yaml has %+v", kubelet)
	}
	if !json.Valid(read("cni/10-pods.conflist")) {
		t.Error("10-pods.conflist is not JSON")
	}
	read("resolv.conf")
	read("kube-proxy.yaml")
	containerd := string(read("containerd.toml"))
	for _, want := range []string{
		"restrict_oom_score_adj = true", "runtime_path = '/cache/shim'", "BinaryName = '/usr/sbin/runc'", "sandbox = '" + pauseImage + "'",
	} {
		if !strings.Contains(containerd, want) {
			t.Errorf("containerd.toml does not contain %s", want)
		}
	}
}

// only keeps some keys of a YAML document.
func only(t *testing.T, document []byte, keys ...string) []byte {
	t.Helper()
	var all, some map[string]any
	if err := yaml.Unmarshal(document, &all); err != nil {
		t.Fatal(err)
	}
	some = map[string]any{}
	for _, key := range keys {
		some[key] = all[key]
	}
	data, err := yaml.Marshal(some)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestPodProblem(t *testing.T) {
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}
	tests := map[string]struct {
		status corev1.PodStatus
		want   string
	}{
		"ready": {status: corev1.PodStatus{Conditions: []corev1.PodCondition{ready}}},
		"a container waits": {
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "manager", State: waiting}}},
			want:   "container manager waits: ImagePullBackOff no such image",
		},
		"ready, but restarted": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{ready}, ContainerStatuses: []corev1.ContainerStatus{{Name: "manager", RestartCount: 2}}},
			want:   "container manager was restarted 2 times",
		},
		"not ready": {status: corev1.PodStatus{Phase: corev1.PodRunning}, want: "not ready, Running"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := podProblem(&corev1.Pod{Status: test.status}); got != test.want {
				t.Errorf("podProblem = %q, want %q", got, test.want)
			}
		})
	}
}
