// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/controllers/session"
	"github.com/ingot-metal/ingot/controllers/token"
	"github.com/ingot-metal/ingot/hack/debian"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
)

const (
	// cutOffDeadline bounds each of install, and the two boots after it.
	cutOffDeadline = 15 * time.Minute
	// bootSecret is in the bootstrap data, bootToken that of the installed system.
	bootSecret, bootToken = "bootstrap-secret-5d1c", "token-of-the-system-77aa"
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
	cache, err := tools.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(cache, "images", "test", "current")
	checksum, err := debian.Checksum(image)
	if err != nil {
		t.Fatalf("no image of a system: make test-image: %v", err)
	}
	var key managerKey
	key.certificate, key.pin = newManagerKey(t)
	seed, err := session.RenderSeed(session.SeedInput{
		ProviderID: "ingot://default/server-1/i1", InstanceID: "i1", Attempt: 1, Hostname: "worker-1",
		Address: "192.0.2.1:8843", Pins: []token.Pin{token.Pin(key.pin)}, Token: bootToken,
	})
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(t.TempDir(), "disk.raw")
	makeDisk(t, disk, 4<<30)
	manager := &orderer{
		key: &key, bootedToken: bootToken, booted: make(chan agentapi.Booted, 100), then: agentapi.BootDisk,
		seed: agentapi.Bootstrap{Format: agentapi.FormatCloudConfig, UserData: endless, MetaData: seed.MetaData, VendorData: agentapi.Sensitive(seed.VendorData)},
		order: agentapi.Order{Kind: agentapi.Install, ID: "order-1", InstanceID: "i1", Attempt: 1, Install: &agentapi.InstallOrder{
			ImageURL: "http://192.0.2.1:8080/disk", Checksum: "sha256:" + checksum, RootDisk: agentapi.DiskRef{Serial: "DISK-1"},
		}},
	}
	var files pxe.Files
	_, vm := manager.boot(t, &files, qemu.Config{Disks: []qemu.Disk{{Path: disk, Serial: "DISK-1"}}},
		func(seg *segment) { serveFile(t, seg, filepath.Join(image, debian.DiskFile)) })
	manager.report(t, vm, cutOffDeadline)
	ctx, cancel := context.WithTimeout(t.Context(), cutOffDeadline)
	defer cancel()
	if text, err := waitSerial(ctx, vm, "FIRST-BOOT-SCRIPTS"); err != nil {
		t.Fatalf("%v; the console ends in:\n%s", err, tail(text, 6000))
	}
	time.Sleep(10 * time.Second) // the disk has by then what cloud-init has begun: it commits every 5 s
	if err := vm.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if n := len(manager.booted); n != 0 {
		t.Fatalf("%d reports before the first boot ended", n)
	}
	if err := vm.SetBoot(qemu.Boot{Device: qemu.Disks}); err != nil {
		t.Fatal(err)
	}
	if err := vm.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-manager.booted:
		got.BootID = ""
		want := agentapi.Booted{InstanceID: "i1", Hostname: "worker-1", Addresses: []string{"192.0.2.17"}, Interrupted: true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	case <-ctx.Done():
		t.Fatalf("the system does not report itself; the console ends in:\n%s", tail(console(vm), 6000))
	}
	time.Sleep(10 * time.Second) // what the report's script does after it
	if err := vm.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if find(t, disk, "worker-1") < 0 {
		t.Error("the search does not find what is on the disk")
	}
	for _, secret := range []string{bootSecret, bootToken} {
		if at := find(t, disk, secret); at >= 0 {
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
