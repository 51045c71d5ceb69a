// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
)

const (
	// eraseDiskBytes is each disk's size: enough for all canaries, little to overwrite.
	eraseDiskBytes = 96 << 20
	// eraseDeadline bounds boot and erasure on a busy machine without KVM.
	eraseDeadline = 20 * time.Minute
)

// pattern is what all of a disk is full of.
var pattern = []byte("SECRET-OF-THE-LAST-TENANT-")

// fullDisk is a file full of the pattern.
func fullDisk(t *testing.T, name string) string {
	t.Helper()
	block := bytes.Repeat(pattern, 1<<20/len(pattern)+1)[:1<<20]
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, bytes.Repeat(block, eraseDiskBytes>>20), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// remains counts what is left in a file, apart from zeroes and the pattern apart.
func remains(t *testing.T, path string) (patterns, others int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	patterns = bytes.Count(content, pattern)
	return patterns, len(content) - bytes.Count(content, []byte{0}) - patterns*len(pattern)
}

// TestErase: the agent erases emulated drives through the kernel's own drivers, each by
// the best means that the drive has, and its report says by which; a disk that the order
// does not name keeps every byte. What is gone is seen in the files that the drives are.
//
// QEMU's drives know no NVMe sanitize and no ATA security: these two are shown by
// agent/erase against the letter of their commands alone.
func TestErase(t *testing.T) {
	needs(t, "all")
	drives := []struct {
		serial string
		model  qemu.DiskModel
		// method; empty: the disk is not in the order.
		method string
	}{
		{"NVME-1", qemu.NVMe, erase.NVMeFormat},
		{"SSD-1", qemu.SolidState, erase.DiscardAndZero},
		{"DISK-1", qemu.SATA, erase.Overwrite},
		{"VIRTIO-1", qemu.VirtioBlk, erase.Overwrite},
		{"OTHER-1", qemu.NVMe, ""},
	}
	var config qemu.Config
	order := &agentapi.CleanOrder{Mode: agentapi.CleanFull, JournalKey: "key-of-this-life"}
	var want []agentapi.CleanedDisk
	for _, d := range drives {
		config.Disks = append(config.Disks, qemu.Disk{Path: fullDisk(t, d.serial), Model: d.model, Serial: d.serial})
		if d.method == "" {
			continue
		}
		ref := agentapi.DiskRef{Serial: d.serial, SizeBytes: eraseDiskBytes}
		order.Disks = append(order.Disks, ref)
		want = append(want, agentapi.CleanedDisk{Disk: ref, Mode: agentapi.CleanFull, Method: d.method, ErasedBytes: eraseDiskBytes})
	}
	manager := &orderer{then: agentapi.PowerOff, order: agentapi.Order{Kind: agentapi.Clean, ID: "order-1", InstanceID: "i1", Attempt: 1, Clean: order}}
	var files pxe.Files
	_, vm := manager.boot(t, &files, config)
	rep := manager.report(t, vm, eraseDeadline)
	for i := range rep.Cleaned {
		if c := &rep.Cleaned[i]; c.VerifiedBytes < 1<<20 {
			t.Errorf("%s: %d bytes were read back", c.Disk.Serial, c.VerifiedBytes)
		}
		rep.Cleaned[i].VerifiedBytes = 0
	}
	if diff := cmp.Diff(want, rep.Cleaned); diff != "" {
		t.Error(diff)
	}
	select { // the acknowledgement said so; and the files are written
	case <-orClosed(vm.Ended()):
	case <-time.After(bootDeadline):
		t.Fatal("the server did not go off")
	}
	for i, d := range drives {
		patterns, others := remains(t, config.Disks[i].Path)
		if d.method == "" {
			if whole := eraseDiskBytes >> 20 * (1 << 20 / len(pattern)); patterns < whole {
				t.Errorf("%s: %d of %d patterns are left of a disk that nobody was to touch", d.serial, patterns, whole)
			}
			continue
		}
		if patterns != 0 || others != 0 {
			t.Errorf("%s (%s): %d patterns and %d other bytes are left", d.serial, d.method, patterns, others)
		}
	}
}
