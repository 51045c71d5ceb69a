// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/raid"
	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
)

const (
	mirrorImageBytes = 48 << 20
	mirrorSeed       = "SEED-OF-THE-MIRROR"
)

// mirrorImage is a disk with an MBR and one ext4 file system, which looks like a system
// that reads NoCloud and has mdadm.
func mirrorImage(t *testing.T) []byte {
	t.Helper()
	const first = 1 << 20 // of the partition, in bytes
	dir, part := t.TempDir(), filepath.Join(t.TempDir(), "part")
	for _, name := range []string{"etc/cloud/cloud.cfg", "var/lib/dpkg/status", "usr/sbin/mdadm"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(name), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "mke2fs", "-q", "-t", "ext4", "-d", dir, part, "40M").CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v\n%s", err, out)
	}
	content, err := os.ReadFile(part)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, mirrorImageBytes)
	copy(raw[first:], content)
	raw[446+4] = 0x83 // the first entry: Linux, start and length in sectors
	binary.LittleEndian.PutUint32(raw[446+8:], first/512)
	binary.LittleEndian.PutUint32(raw[446+12:], uint32(len(content)/512))
	raw[510], raw[511] = 0x55, 0xaa
	return raw
}

// TestMirror: the agent installs on two disks of different makes and sizes through the
// kernel's own drivers, seeds the first by mounting it, and both end up the same, as the
// members of one array. That Linux assembles such an array, boots from it, and from the
// second disk alone, is described in docs/book/tasks/software-raid.md.
func TestMirror(t *testing.T) {
	needs(t, "all")
	raw := mirrorImage(t)
	sum := sha256.Sum256(raw)
	config := qemu.Config{Disks: []qemu.Disk{
		{Path: fullDisk(t, "DISK-1"), Model: qemu.VirtioBlk, Serial: "DISK-1"},
		{Path: fullDisk(t, "DISK-2"), Model: qemu.NVMe, Serial: "DISK-2"},
	}}
	if err := os.Truncate(config.Disks[1].Path, eraseDiskBytes+9<<20); err != nil {
		t.Fatal(err)
	}
	second := []agentapi.DiskRef{{Serial: "DISK-2"}}
	manager := &orderer{
		then: agentapi.PowerOff, seed: agentapi.Bootstrap{UserData: "#cloud-config\n# " + mirrorSeed + "\n", MetaData: "instance-id: i1-1\n"},
		order: agentapi.Order{Kind: agentapi.Install, ID: "order-1", InstanceID: "i1", Attempt: 1, Install: &agentapi.InstallOrder{
			ImageURL: "http://192.0.2.1:8080/disk", Checksum: "sha256:" + hex.EncodeToString(sum[:]),
			RootDisk: agentapi.DiskRef{Serial: "DISK-1"}, MirrorDisks: second,
		}},
	}
	var files pxe.Files
	_, vm := manager.boot(t, &files, config, func(seg *segment) { serveMirrorImage(t, seg, raw) })
	rep := manager.report(t, vm, eraseDeadline)
	if diff := cmp.Diff(second, rep.MirrorDisks); diff != "" || rep.BytesWritten != mirrorImageBytes {
		t.Errorf("%d bytes written; members (-want +got):\n%s", rep.BytesWritten, diff)
	}
	select { // the acknowledgement said so; and the files are written
	case <-orClosed(vm.Ended()):
	case <-time.After(bootDeadline):
		t.Fatal("the server did not go off")
	}
	compareMembers(t, config.Disks, raw)
}

func serveMirrorImage(t *testing.T, seg *segment, raw []byte) {
	t.Helper()
	l, err := seg.stack.ListenTCP(8080)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
}

func compareMembers(t *testing.T, disks []qemu.Disk, raw []byte) {
	t.Helper()
	var contents [][]byte
	var arrays [][16]byte
	for i, disk := range disks {
		b, err := os.ReadFile(disk.Path)
		if err != nil {
			t.Fatal(err)
		}
		found := raid.Find(bytes.NewReader(b), int64(len(b)))
		if len(found) != 1 || found[0].Role != i || found[0].SyncedBytes != mirrorImageBytes || found[0].DataBytes != eraseDiskBytes-1<<20 {
			t.Fatalf("%s: superblocks %+v", disk.Serial, found)
		}
		if !bytes.Contains(b[:len(raw)], []byte(mirrorSeed)) {
			t.Errorf("%s has no seed", disk.Serial)
		}
		contents, arrays = append(contents, b[:len(raw)]), append(arrays, found[0].Array)
	}
	if arrays[0] != arrays[1] || !bytes.Equal(contents[0], contents[1]) {
		t.Error("the members are of two arrays, or differ")
	}
	if bytes.Equal(contents[0][2<<20:], raw[2<<20:]) {
		t.Error("the file system was not mounted: nothing had to be copied")
	}
}
