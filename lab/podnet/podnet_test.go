// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var byText = []cmp.Option{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

func TestPlanFor(t *testing.T) {
	prefix, address := netip.MustParsePrefix, netip.MustParseAddr
	plan, err := PlanFor("b", []Node{
		{Name: "c", Pods: prefix("10.244.2.0/24"), Address: address("192.0.2.3")},
		{Name: "b", Pods: prefix("10.244.1.0/24"), Address: address("192.0.2.2")},
		{Name: "a", Pods: prefix("10.244.0.0/24"), Address: address("192.0.2.1")},
		{Name: "new", Address: address("192.0.2.4")},
		{Name: "unreachable", Pods: prefix("10.244.5.0/24")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Route{
		{prefix("10.244.0.0/24"), address("192.0.2.1")},
		{prefix("10.244.2.0/24"), address("192.0.2.3")},
	}
	if diff := cmp.Diff(want, plan.Routes, byText...); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	golden, err := os.ReadFile("testdata/10-podnet.conflist")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(golden)), string(plan.Configuration)); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	early, err := PlanFor("b", []Node{{Name: "b", Address: address("192.0.2.2")}})
	if err != nil || len(early.Configuration) != 0 {
		t.Errorf("a node without addresses for pods is given %s, %v", early.Configuration, err)
	}
}

func TestDescribe(t *testing.T) {
	node := func(name, cidr string, cidrs []string, addresses ...corev1.NodeAddress) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: cidrs}, Status: corev1.NodeStatus{Addresses: addresses},
		}
	}
	internal := func(a string) corev1.NodeAddress { return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a} }
	got := describe([]*corev1.Node{
		node("plain", "10.244.1.0/24", nil, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "plain"}, internal("192.0.2.2")),
		node("dual", "fd00::/64", []string{"fd00::/64", "10.244.2.0/24"}, internal("fd00::2"), internal("192.0.2.3")),
		node("new", "", nil),
	})
	want := []Node{
		{"plain", netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("192.0.2.2")},
		{"dual", netip.MustParsePrefix("10.244.2.0/24"), netip.MustParseAddr("192.0.2.3")},
		{Name: "new"},
	}
	if diff := cmp.Diff(want, got, byText...); diff != "" {
		t.Error(diff)
	}
}

func TestMasquerade(t *testing.T) {
	want := `*nat
:PODNET - [0:0]
-A PODNET -s 10.244.0.0/16 -d 10.244.0.0/16 -j RETURN
-A PODNET -s 10.244.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE
COMMIT
`
	if diff := cmp.Diff(want, masquerade(netip.MustParsePrefix("10.244.0.0/16"))); diff != "" {
		t.Error(diff)
	}
}

func TestConfigure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "10-podnet.conflist")
	for _, content := range []string{"one", "one", "two", ""} {
		if err := configure(dir, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if content != "" && string(got) != content {
			t.Errorf("%q is written, want %q", got, content)
		}
		if content == "" && string(got) != "two" {
			t.Errorf("a plan without configuration left %q", got)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.next")); len(left) > 0 {
		t.Errorf("left %s", left)
	}
	if err := configure(filepath.Join(dir, "none"), []byte("x")); err == nil {
		t.Error("written into a directory that is not there")
	}
}

func TestManifest(t *testing.T) {
	for _, wrong := range []string{"", "10.244.0.0", "fd00::/64", "10.244.0.0/33"} {
		if _, err := Manifest(wrong, ""); err == nil {
			t.Errorf("%q is no network of pods", wrong)
		}
	}
	if _, err := Manifest("10.244.0.0/16", "192.0.2.1"); err == nil {
		t.Error("an endpoint without a port is taken")
	}
	container := daemon(t, "")
	if container.Image != Image || container.Args[0] != "--pods=10.244.0.0/16" || len(container.Env) != 1 {
		t.Errorf("container %+v", container)
	}
	want := []corev1.EnvVar{{Name: "KUBERNETES_SERVICE_HOST", Value: "fd00::50"}, {Name: "KUBERNETES_SERVICE_PORT", Value: "6443"}}
	if diff := cmp.Diff(want, daemon(t, "[fd00::50]:6443").Env[1:]); diff != "" {
		t.Errorf("environment with an endpoint (-want +got):\n%s", diff)
	}
}

// daemon is the one container of the manifest's DaemonSet.
func daemon(t *testing.T, endpoint string) corev1.Container {
	t.Helper()
	out, err := Manifest("10.244.7.7/16", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.DaemonSet
	for _, document := range strings.Split(string(out), "\n---\n") {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &meta); err != nil {
			t.Fatal(err)
		}
		if meta.Kind == "DaemonSet" {
			if err := yaml.UnmarshalStrict([]byte(document), &set); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(set.Spec.Template.Spec.Containers); n != 1 {
		t.Fatalf("%d containers", n)
	}
	return set.Spec.Template.Spec.Containers[0]
}

func TestHello(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Hello(ctx, listener, "pod-1") }()
	answer, err := http.Get("http://" + listener.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.Body.Close() != nil || string(body) != "hello from pod-1\n" {
		t.Errorf("%q, %v", body, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("at its end: %v", err)
	}
}
