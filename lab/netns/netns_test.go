// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/lab/netns"
)

// here names the network namespace of the calling thread.
func here() (string, error) { return os.Readlink("/proc/thread-self/ns/net") }

func TestDoIsThereAndNowhereElse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may enter network namespaces")
	}
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, os.ErrPermission) {
			t.Skipf("no right to make network namespaces: %v", err)
		}
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // "signal: killed"
	}()
	path := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/ns/net"
	want, err := os.Readlink(path)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := here()
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := netns.Do(path, func() (err error) { got, err = here(); return err }); err != nil || got != want {
		t.Errorf("Do was in %s, %v, want %s", got, err, want)
	}
	if after, err := here(); err != nil || after != before {
		t.Errorf("the caller is in %s, %v, after it was in %s", after, err, before)
	}
	failed := errors.New("failed")
	if err := netns.Do(path, func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("Do = %v, want what f returned", err)
	}
}

func TestDoWithoutNamespace(t *testing.T) {
	err := netns.Do("/nonexistent", func() error { t.Error("f was called"); return nil })
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Do = %v, want that there is no such file", err)
	}
}
