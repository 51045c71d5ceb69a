// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// TestNode uses one node for all checks.
func TestNode(t *testing.T) {
	if os.Getenv("INGOT_E2E") == "" {
		t.Skip("set INGOT_E2E=1 to run a node with pods, as make e2e-clusterctl does; needs root")
	}
	began := time.Now()
	n, err := Start(t.Context(), Config{Audit: true, AuditBodies: []string{"cluster.x-k8s.io"}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	t.Logf("node Ready after %.1f s", time.Since(began).Seconds())
	if err := n.Init(t.Context(), Init{Progress: t.Output()}); err != nil {
		showPods(t, n)
		t.Fatal(err)
	}
	t.Logf("clusterctl init is done after %.1f s", time.Since(began).Seconds())
	if err := n.AwaitPods(t.Context()); err != nil {
		t.Error(err)
	}
	t.Run("memory", func(t *testing.T) { reportMemory(t) })
	t.Run("logs of a pod", func(t *testing.T) { testLogs(t, n) })
	t.Run("the audit log", func(t *testing.T) { testAudit(t, n) })
	t.Run("two nodes", func(t *testing.T) { testSecondNode(t, n) })
	t.Run("close removes everything", func(t *testing.T) { testClose(t, n) })
}

func showPods(t *testing.T, n *Node) {
	t.Helper()
	out, err := n.Kubectl(t.Context(), "get", "pods,events", "--all-namespaces", "--output=wide")
	t.Logf("%s%v", out, err)
}

func testLogs(t *testing.T, n *Node) {
	names, err := n.Kubectl(t.Context(), "--namespace=capi-system", "get", "pods", "--output=jsonpath={.items[*].metadata.name}")
	if err != nil {
		t.Fatal(err)
	}
	logs, err := n.Logs(t.Context(), "capi-system", string(names))
	if err != nil || !bytes.Contains(logs, []byte("Starting manager")) {
		t.Errorf("logs of %s: %q, %v", names, logs, err)
	}
}

func testAudit(t *testing.T, n *Node) {
	log, err := os.ReadFile(n.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\"kind\":\"Event\"", "system:serviceaccount:capi-system:capi-manager"} {
		if !bytes.Contains(log, []byte(want)) {
			t.Errorf("no %s in the audit log of %d bytes", want, len(log))
		}
	}
}

// testSecondNode starts and stops a second node, which must not affect the first.
func testSecondNode(t *testing.T, first *Node) {
	second, err := Start(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if second.Address() == first.Address() {
		t.Errorf("both nodes are at %s", first.Address())
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if err := first.Err(); err != nil {
		t.Error(err)
	}
	if err := first.PodsReady(t.Context()); err != nil {
		t.Error(err)
	}
}

func testClose(t *testing.T, n *Node) {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	namespaces := map[string]bool{}
	for number := range descendants(t, os.Getpid()) {
		if namespace, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(number), "ns", "pid")); err == nil && namespace != own {
			namespaces[namespace] = true
		}
	}
	if len(namespaces) < 7 {
		t.Errorf("%d process namespaces, want those of the node and of six containers", len(namespaces))
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for namespace := range namespaces {
		if members := membersOf(t, namespace); len(members) > 0 {
			t.Errorf("processes outlived the node: %v", members)
		}
	}
	if _, err := netlink.LinkByName(n.link.name); !errors.As(err, &netlink.LinkNotFoundError{}) {
		t.Errorf("link %s: %v, want it removed", n.link.name, err)
	}
	for _, path := range append(n.cgroups.dirs, n.dir) {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want it removed", path, err)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(mounts, []byte(n.dir)) {
		t.Errorf("something of %s is still mounted:\n%s", n.dir, mounts)
	}
	if err := n.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

// descendants returns a process and its descendants by process ID.
func descendants(t *testing.T, root int) map[int]running {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]running{}
	for _, file := range files {
		number, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		status, err := os.ReadFile(file)
		if err != nil {
			continue // ended meanwhile
		}
		all[number] = parseStatus(status)
	}
	found := map[int]running{}
	for number, process := range all {
		for at := number; at != 0; at = all[at].parent {
			if at == root {
				found[number] = process
			}
		}
	}
	return found
}

// running is the status of a process (proc_pid_status(5)), with resident memory in KiB.
type running struct {
	name        string
	parent, kib int
}

func parseStatus(status []byte) running {
	var r running
	for lines := bufio.NewScanner(bytes.NewReader(status)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		first, _, _ := strings.Cut(strings.TrimSpace(value), " ")
		switch name {
		case "Name":
			r.name = first
		case "PPid":
			r.parent, _ = strconv.Atoi(first)
		case "VmRSS":
			r.kib, _ = strconv.Atoi(first)
		}
	}
	return r
}

// reportMemory logs the memory of each program.
func reportMemory(t *testing.T) {
	sum, byName := 0, map[string]int{}
	for number, process := range descendants(t, os.Getpid()) {
		if number == os.Getpid() {
			continue
		}
		byName[process.name] += process.kib >> 10
		sum += process.kib >> 10
	}
	t.Logf("%d MiB resident: %v", sum, byName)
}
