// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/inventory/networkdata"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/qemu"
)

// blackStartTimeout bounds two boots of the installed system on a busy machine.
const blackStartTimeout = 15 * time.Minute

// TestBlackStart: a server whose network was frozen with its claim boots its disk and is
// reached on a network where nobody answers: no DHCP, no boot server, no manager. So it is
// where firmware has lost its settings, and tries that network before the disk.
func TestBlackStart(t *testing.T) {
	needs(t, "all")
	const address = "10.20.3.7"
	mac := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 0x77}
	sw := network.NewSwitch()
	t.Cleanup(func() { _ = sw.Close() })
	neighbour, err := network.NewStack(sw, network.StackConfig{Name: "neighbour", Address: netip.MustParsePrefix("10.20.0.1/22")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = neighbour.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), blackStartTimeout)
	defer cancel()
	vm := newVM(t, &segment{Switch: sw}, mac, qemu.Config{
		CPUs: 2, NICs: []qemu.NIC{{}},
		Disks: []qemu.Disk{{Path: installedDisk(t)}, {Path: seedDisk(ctx, t, staticNetwork(t, mac, address+"/22"))}},
	})
	for _, first := range []qemu.Device{qemu.Disks, qemu.Network} {
		if err := vm.SetBoot(qemu.Boot{Device: first}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := vm.PowerOn(ctx); err != nil {
			t.Fatal(err)
		}
		if err := reach(ctx, neighbour, address+":22"); err != nil {
			text, _ := os.ReadFile(vm.SerialLog())
			t.Fatalf("%s first: %v; the console ends in:\n%s", first, err, tail(string(text), 4000))
		}
		t.Logf("%s first: reached at %s after %s", first, address, time.Since(began).Round(time.Second))
		if err := vm.PowerOff(); err != nil { // the plug, not a shutdown
			t.Fatal(err)
		}
	}
}

// staticNetwork is what networkData comes to on a server with one interface.
func staticNetwork(t *testing.T, mac net.HardwareAddr, address string) string {
	t.Helper()
	data := &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0", NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly},
		LinkConfig: infrav1.LinkConfig{RouterAdvertisements: infrav1.RouterAdvertisementsIgnore,
			Addresses: []infrav1.LinkAddress{{Source: infrav1.AddressStatic, Address: address}}}}}}
	resolved, err := networkdata.Resolve(data, networkdata.Sources{Host: networkdata.Host{BootMAC: mac.String(), NICs: []infrav1.HardwareNIC{{MAC: mac.String()}}}})
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Config()
}

// installedDisk is a copy of the test image, as the agent writes it.
func installedDisk(t *testing.T) string {
	t.Helper()
	cache, err := tools.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.Open(filepath.Join(cache, "images", "test", "current", "disk.raw.zst"))
	if err != nil {
		t.Skipf("no test image (make test-image): %v", err)
	}
	defer packed.Close()
	plain, err := zstd.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	disk, err := os.Create(filepath.Join(t.TempDir(), "disk.raw"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(disk, plain)
	if err = errors.Join(err, disk.Close()); err != nil {
		t.Fatal(err)
	}
	return disk.Name()
}

// seedDisk is a disk with the seed, for cloud-init's NoCloud: the file system's label
// says what it is. The agent writes the same files into the root file system.
func seedDisk(ctx context.Context, t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	disk := filepath.Join(dir, "seed.img")
	if err := errors.Join(os.WriteFile(disk, nil, 0o600), os.Truncate(disk, 4<<20)); err != nil {
		t.Fatal(err)
	}
	commands := [][]string{{"mformat", "-i", disk, "-v", "CIDATA", "::"}}
	for name, text := range map[string]string{
		"meta-data": "instance-id: black-start-1\nlocal-hostname: dark\n", "user-data": "#cloud-config\n{}\n", "network-config": config,
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		commands = append(commands, []string{"mcopy", "-i", disk, file, "::/" + name})
	}
	for _, command := range commands {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return disk
}

// reach waits until somebody answers at an address.
func reach(ctx context.Context, from *network.Stack, address string) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		conn, err := from.DialContext(attempt, "tcp", address)
		cancel()
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}
