// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"github.com/ingot-metal/ingot/lab/netns"
	"github.com/ingot-metal/ingot/test/needs"
)

// here names the network namespace of the calling thread.
func here() (string, error) { return os.Readlink("/proc/thread-self/ns/net") }

func TestDoIsThereAndNowhereElse(t *testing.T) {
	path := needs.Namespace(t)
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
