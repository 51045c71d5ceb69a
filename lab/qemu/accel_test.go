// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/needs"
)

// fakeQEMU is a program that stands in for QEMU.
func fakeQEMU(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qemu")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// printTo writes to the file that the probe gave as the serial port.
const printTo = `for a in "$@"; do case $a in file:*) printf '%s' "$TEXT" > "${a#file:}";; esac; done
`

func TestProbeFallsBack(t *testing.T) {
	for _, tc := range []struct {
		name, script, kernel string
		want                 Accel
	}{
		{"KVM works", `TEXT="net0: 52:54"; ` + printTo + `exec sleep 60`, "", KVM},
		{"QEMU refuses", `echo no kvm >&2; exit 1`, "", TCG},
		{"a kernel does not boot", `TEXT="net0: 52:54"; ` + printTo +
			`case "$*" in *-kernel*) exit 1;; esac; exec sleep 60`, "vmlinuz", TCG},
		{"a kernel boots", `TEXT="net0: 52:54"; case "$*" in *-kernel*) TEXT="VFS: Unable to mount root fs";; esac; ` +
			printTo + `exec sleep 60`, "vmlinuz", KVM},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := Probe{Binary: fakeQEMU(t, tc.script), Kernel: tc.kernel}
			for range 2 { // the second answer is the first one
				if got := p.Accel(context.Background()); got != tc.want {
					t.Errorf("got %v (%v), want %v", got, p.Reason(), tc.want)
				}
			}
			if failed := p.Reason() != nil; failed != (tc.want == TCG) {
				t.Errorf("reason is %v", p.Reason())
			}
		})
	}
}

func TestProbeWithoutQEMU(t *testing.T) {
	p := Probe{Binary: filepath.Join(t.TempDir(), "none")}
	if got := p.Accel(context.Background()); got != TCG || p.Reason() == nil {
		t.Errorf("got %v, %v", got, p.Reason())
	}
}

// TestProbeKnowsRealFirmware keeps the texts that the probe waits for true.
func TestProbeKnowsRealFirmware(t *testing.T) {
	needs.Program(t, "qemu-system-x86_64")
	if testing.Short() {
		t.Skip("boots a virtual machine")
	}
	if err := new(Probe).try(context.Background(), TCG, 3*time.Minute); err != nil {
		t.Error(err)
	}
}

func TestWithRoom(t *testing.T) {
	if got, want := TCG.WithRoom(512).Accelerator, "tcg,thread=multi,tb-size=512"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := KVM.WithRoom(512); got != KVM {
		t.Errorf("KVM became %v", got)
	}
}
