// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/qemu"
)

const (
	// cutOffDeadline bounds each of install, and the two boots after it.
	cutOffDeadline = 15 * time.Minute
	// bootSecret is in the bootstrap data.
	bootSecret = "bootstrap-secret-5d1c"
)

// endless is bootstrap data whose script says where it is, and does not end.
const endless = `#cloud-config
# ` + bootSecret + `
runcmd:
- [sh, -c, "echo FIRST-BOOT-SCRIPTS > /dev/ttyS0; sleep 3600"]
`

// TestFirstBootCutOff: the power of a server goes while cloud-init runs the scripts of the
// first boot, and comes back. cloud-init does not run them again: the system reports
// that, and the secrets are removed from its disk all the same (I16).
func TestFirstBootCutOff(t *testing.T) {
	needs(t, "all")
	in := install(t, "test", cutOffDeadline, cloudConfig(endless, ""))
	ctx, cancel := context.WithTimeout(t.Context(), cutOffDeadline)
	defer cancel()
	if text, err := waitSerial(ctx, in.vm, "FIRST-BOOT-SCRIPTS"); err != nil {
		t.Fatalf("%v; the console ends in:\n%s", err, tail(text, 6000))
	}
	in.pullThePlug(t)
	if n := len(in.manager.booted); n != 0 {
		t.Fatalf("%d reports before the first boot ended", n)
	}
	in.turnOn(ctx, t, qemu.Disks)
	in.reports(ctx, t, "192.0.2.17", agentapi.Booted{Interrupted: true})
	in.pullThePlug(t)
	if find(t, in.disk, "worker-1") < 0 {
		t.Error("the search does not find what is on the disk")
	}
	for _, secret := range []string{bootSecret, bootToken} {
		if at := find(t, in.disk, secret); at >= 0 {
			t.Errorf("%s is on the disk at %d", secret, at)
		}
	}
}

// find returns where in a file a text begins; -1: nowhere.
func find(t *testing.T, path, text string) int64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const piece = 1 << 20
	window := make([]byte, 0, piece+len(text))
	for at := int64(0); ; {
		n, err := f.Read(window[len(window) : len(window)+piece])
		window = window[:len(window)+n]
		if i := bytes.Index(window, []byte(text)); i >= 0 {
			return at + int64(i)
		}
		if err == io.EOF {
			return -1
		}
		if err != nil {
			t.Fatal(err)
		}
		keep := min(len(text)-1, len(window))
		at += int64(len(window) - keep)
		window = append(window[:0], window[len(window)-keep:]...)
	}
}
