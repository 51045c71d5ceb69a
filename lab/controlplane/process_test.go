// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// parentEnv makes the test binary play a parent that starts one child, prints
// its pid and waits to be killed.
const parentEnv = "INGOT_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		p, err := start(command{path: "/bin/sleep", args: []string{"600"}, dir: dir})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.cmd.Process.Pid)
		<-p.done
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("the parent said %q", line)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "signal: killed"
	for deadline := time.Now().Add(30 * time.Second); alive(child); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("child %d outlived its parent", child)
		}
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	p, err := start(command{path: "/bin/sh", args: []string{"-c", "trap '' TERM; echo ready; while :; do sleep 1; done"}, dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for tail(p.log, 100) != "ready" {
		time.Sleep(10 * time.Millisecond)
	}
	p.stop(50 * time.Millisecond)
	if alive(p.cmd.Process.Pid) {
		t.Error("still alive after stop")
	}
	if err := p.exited(); err == nil || !strings.Contains(err.Error(), "ready") {
		t.Errorf("exited() = %v, want the end of the log in it", err)
	}
}

// alive reports whether the process exists and is not a zombie.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
