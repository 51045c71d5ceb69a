// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ingot-metal/ingot/lab/audit"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/process"
	"github.com/ingot-metal/ingot/test/needs"
)

func TestStartAndStop(t *testing.T) {
	needs.ControlPlane(t)
	dir := t.TempDir()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Stop()

	// By the Go client: the garbage collector of the controller manager works.
	clients, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}}
	if _, err := clients.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Errorf("create a Secret: %v", err)
	}
	// The log has it before the client had its answer.
	events, err := audit.Read(cp.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(events, func(e audit.Event) bool {
		return e.Changes() && e.User.Username == "ingot-lab-admin" && e.Object.Resource == "secrets" && e.Response.Code == 201 && e.RequestBody == nil
	}) {
		t.Errorf("none of %d events is the Secret's creation", len(events))
	}

	// By the kubeconfig file alone, as from a user's shell.
	kubectl, err := needs.Tools(t).Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "get", "secret", "s", "--output=name")
	cmd.Env = []string{"KUBECONFIG=" + cp.Kubeconfig(), "HOME=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "secret/s" {
		t.Errorf("kubectl get secret: %q, %v", out, err)
	}

	children := childrenIn(t, dir)
	if len(children) != 3 {
		t.Errorf("processes working in the state directory: %v, want 3", children)
	}
	cp.Stop()
	if left := childrenIn(t, dir); len(left) != 0 {
		t.Errorf("still running after Stop: %v", left)
	}
}

func TestStartReportsADeadChild(t *testing.T) {
	needs.ControlPlane(t)
	dir := t.TempDir()
	cp, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer cp.Stop()
	if err := cp.Err(); err != nil {
		t.Fatalf("before: %v", err)
	}
	for pid, name := range childrenIn(t, dir) {
		if name == "etcd" {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	// InstallClusterAPI notices at its first wait, if not earlier.
	if err := cp.InstallClusterAPI(t.Context()); err == nil {
		t.Error("Cluster API was installed without etcd")
	}
	if err := cp.Err(); !errors.Is(err, process.ErrExited) || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("Err() = %v, want etcd's end", err)
	}
}

func TestStartRefusesAUsedDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := controlplane.Start(t.Context(), controlplane.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("Start = %v, want a refusal", err)
	}
}

func TestFreePorts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	seen := map[int]bool{taken.Addr().(*net.TCPAddr).Port: true}
	const calls, each = 10, 200 // 2,000 of 12,000: without a memory 150 would come twice
	for range calls {
		ports, err := controlplane.FreePorts(each)
		if err != nil {
			t.Fatal(err)
		}
		if len(ports) != each {
			t.Errorf("%d ports, want %d", len(ports), each)
		}
		for _, port := range ports {
			if seen[port] {
				t.Errorf("port %d twice, or taken", port)
			}
			seen[port] = true
		}
	}
}

// childrenIn returns the processes whose working directory is dir, by pid.
func childrenIn(t *testing.T, dir string) map[int]string {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	found := map[int]string{}
	for _, link := range links {
		if target, err := os.Readlink(link); err != nil || target != dir {
			continue
		}
		args, err := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		if err != nil {
			continue // ended meanwhile
		}
		program, _, _ := strings.Cut(string(args), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			t.Fatal(err)
		}
		found[pid] = filepath.Base(program)
	}
	return found
}
