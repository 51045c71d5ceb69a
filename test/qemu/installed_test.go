// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/hack/debian"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/internal/agentserver"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
)

// bootToken is that of the installed system.
const bootToken = "token-of-the-system-77aa"

// installation is a server whose disk an agent has written, at its first boot from it.
type installation struct {
	manager *orderer
	seg     *segment
	vm      *qemu.VM
	disk    string
}

// install has the agent put an image of the cache on a server's disk, with what is made of
// the facts of its instance, as Ingot's manager makes it.
func install(t *testing.T, image string, deadline time.Duration, bootstrap func(agentserver.SeedInput) (agentapi.Bootstrap, error)) installation {
	t.Helper()
	cache, err := tools.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "images", image, "current")
	checksum, err := debian.Checksum(dir)
	if err != nil {
		t.Fatalf("no image of a system: make %s-image: %v", image, err)
	}
	var key managerKey
	key.certificate, key.pin = newManagerKey(t)
	seed, err := bootstrap(agentserver.SeedInput{
		ProviderID: "ingot://default/server-1/i1", InstanceID: "i1", Attempt: 1, Hostname: "worker-1", FailureDomain: "rack-a",
		Address: "192.0.2.1:8843", Pins: []token.Pin{token.Pin(key.pin)}, Token: bootToken,
	})
	if err != nil {
		t.Fatal(err)
	}
	in := installation{disk: filepath.Join(t.TempDir(), "disk.raw")}
	makeDisk(t, in.disk, 4<<30)
	in.manager = &orderer{
		key: &key, bootedToken: bootToken, booted: make(chan agentapi.Booted, 100), then: agentapi.BootDisk, seed: seed,
		order: agentapi.Order{Kind: agentapi.Install, ID: "order-1", InstanceID: "i1", Attempt: 1, Install: &agentapi.InstallOrder{
			ImageURL: "http://192.0.2.1:8080/disk", Checksum: "sha256:" + checksum, RootDisk: agentapi.DiskRef{Serial: "DISK-1"},
		}},
	}
	var files pxe.Files
	in.seg, in.vm = in.manager.boot(t, &files, qemu.Config{Disks: []qemu.Disk{{Path: in.disk, Serial: "DISK-1"}}},
		func(seg *segment) { serveFile(t, seg, filepath.Join(dir, debian.DiskFile)) })
	in.manager.report(t, in.vm, deadline)
	return in
}

// cloudConfig is bootstrap data for cloud-init; network may be empty.
func cloudConfig(userData, network string) func(agentserver.SeedInput) (agentapi.Bootstrap, error) {
	return func(facts agentserver.SeedInput) (agentapi.Bootstrap, error) {
		seed, err := agentserver.RenderSeed(facts)
		return agentapi.Bootstrap{
			Format: agentapi.FormatCloudConfig, UserData: agentapi.Sensitive(userData), NetworkConfig: network,
			MetaData: seed.MetaData, VendorData: agentapi.Sensitive(seed.VendorData),
		}, err
	}
}

// reports waits until the installed system reports itself: its address, and what became of
// its first boot.
func (in installation) reports(ctx context.Context, t *testing.T, address string, outcome agentapi.Booted) {
	t.Helper()
	select {
	case got := <-in.manager.booted:
		got.BootID = ""
		want := outcome
		want.InstanceID, want.Hostname, want.Addresses = "i1", "worker-1", []string{address}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	case <-ctx.Done():
		t.Fatalf("the system does not report itself; the console ends in:\n%s", tail(console(in.vm), 6000))
	}
}

// turnOn boots the server as its firmware is set.
func (in installation) turnOn(ctx context.Context, t *testing.T, first qemu.Device) {
	t.Helper()
	if err := in.vm.SetBoot(qemu.Boot{Device: first}); err != nil {
		t.Fatal(err)
	}
	if err := in.vm.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
}

// pullThePlug cuts the power, once the disk has what was written last: it commits every 5 s.
func (in installation) pullThePlug(t *testing.T) {
	t.Helper()
	time.Sleep(10 * time.Second)
	if err := in.vm.PowerOff(); err != nil {
		t.Fatal(err)
	}
}
