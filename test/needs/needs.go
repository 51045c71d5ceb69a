// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package needs declares what a test needs beyond Go: built tools, installed programs, root.
//
// A test whose need is not met skips, and its message names the missing part and the command that
// provides it. With INGOT_STRICT=1, which make test sets, a missing tool or program fails the
// test instead, so that no test is left out unnoticed.
package needs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/hack/tools"
)

// Tools returns the set of tools, all programs of which are built. Without names it only finds the
// source tree.
func Tools(t testing.TB, programs ...string) *tools.Set {
	t.Helper()
	set, err := tools.Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range programs {
		_, err := set.Binary(name)
		if errors.Is(err, tools.ErrNotBuilt) {
			missing(t, err.Error())
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return set
}

// Built skips a test unless the target has built the program, which make test does not build.
func Built(t testing.TB, program, target string) {
	t.Helper()
	if _, err := Tools(t).Binary(program); err != nil {
		t.Skipf("run %q, which builds %s", target, program)
	}
}

// ControlPlane returns the directory of etcd, kube-apiserver and kubectl.
func ControlPlane(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir
	}
	set := Tools(t, "etcd", "kube-apiserver", "kubectl")
	dir, err := set.Assets()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// ClusterAPI needs a control plane and Cluster API's managers.
func ClusterAPI(t testing.TB) {
	t.Helper()
	ControlPlane(t)
	Tools(t, "capi-core-manager")
}

// Program returns the path of an installed program, sbin included.
func Program(t testing.TB, name string) string {
	t.Helper()
	for _, file := range []string{name, filepath.Join("/usr/sbin", name)} {
		if path, err := exec.LookPath(file); err == nil {
			return path
		}
	}
	missing(t, name+` is not installed: run "hack/packages.sh test"`)
	return ""
}

// File needs a file of a Debian package, by its absolute path.
func File(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		missing(t, path+` is not installed: run "hack/packages.sh test"`)
	}
}

// Namespace returns the path of a new, empty network namespace that lives as long as the test. It
// needs root.
func Namespace(t testing.TB) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may make network namespaces")
	}
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := cmd.Start(); errors.Is(err, os.ErrPermission) {
		t.Skipf("no right to make network namespaces: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
}

// Full skips a test that takes minutes, unless INGOT_FULL=1 is set, as make test-full does.
func Full(t testing.TB) {
	t.Helper()
	if !IsFull() {
		t.Skip("takes minutes: set INGOT_FULL=1, as make test-full does")
	}
}

// IsFull reports whether tests run all their cases (make test-full) and not a fixed sample.
func IsFull() bool { return os.Getenv("INGOT_FULL") != "" }

// Sample returns the number of cases that a random walk runs: n with INGOT_FULL, and a quarter of n
// without it.
func Sample(n uint64) uint64 {
	if IsFull() {
		return n
	}
	return max(1, n/4)
}

func missing(t testing.TB, message string) {
	t.Helper()
	if os.Getenv("INGOT_STRICT") != "" {
		t.Fatal(message)
	}
	t.Skip(message)
}
