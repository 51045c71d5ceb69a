// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/test/eventually"
)

// parentEnv makes the test binary play a parent that starts one child, prints
// its pid and waits to be killed.
const parentEnv = "INGOT_TEST_PARENT_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentEnv); dir != "" {
		p, err := Start(Command{Path: "/bin/sleep", Args: []string{"600"}, Dir: dir, Log: filepath.Join(dir, "log")})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.PID())
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
	eventually.Wait{Interval: 10 * time.Millisecond}.Until(t, fmt.Sprintf("the end of child %d with its parent", child), eventually.Holds(func() bool { return !alive(child) }))
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	dir := t.TempDir()
	p, err := Start(Command{
		Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; echo ready; while :; do sleep 1; done"},
		Dir: dir, Log: filepath.Join(dir, "log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually.Wait{Interval: 10 * time.Millisecond}.Until(t, "a process that is ready", eventually.Holds(func() bool { return tail(p.log, 100) == "ready" }))
	p.Stop(50 * time.Millisecond)
	if alive(p.PID()) {
		t.Error("still alive after Stop")
	}
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "ready") {
		t.Errorf("Err() = %v, want the end of the log in it", err)
	}
}

func TestStartFails(t *testing.T) {
	dir := t.TempDir()
	if _, err := Start(Command{Path: "/nonexistent", Dir: dir, Log: filepath.Join(dir, "log")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start = %v, want that there is no such program", err)
	}
}

// A process sees PATH, HOME and what it is given, nothing of the user's.
func TestEnvironment(t *testing.T) {
	t.Setenv("KUBECONFIG", "somebody's")
	t.Setenv("PATH", "/bin:/usr/bin")
	dir := t.TempDir()
	p, err := Start(Command{Path: "/usr/bin/env", Env: []string{"A=b"}, Dir: dir, Log: filepath.Join(dir, "logs", "env")})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	got, err := os.ReadFile(filepath.Join(dir, "logs", "env"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(got))
	slices.Sort(lines)
	want := []string{"A=b", "HOME=" + dir, "PATH=/bin:/usr/bin"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if err := p.Err(); !errors.Is(err, ErrExited) {
		t.Errorf("Err() = %v after the end", err)
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
