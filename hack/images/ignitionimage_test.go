// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/u-root/u-root/pkg/cpio"
)

// The changes of the image are complete, and the shell accepts the script.
func TestIgnitionChanges(t *testing.T) {
	work := t.TempDir()
	program := filepath.Join(work, "tree", "usr/lib/dracut/modules.d/30ignition/ignition")
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("the program"), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := ignitionChanges(work)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = `mkdir /etc/selinux
rm /boot/grub/grub.cfg
cd /boot/grub
write _boot_grub_grub.cfg grub.cfg
cd /
write _ignition.firstboot ignition.firstboot
rm /etc/machine-id
cd /etc
write _etc_machine-id machine-id
cd /etc/cloud
write _etc_cloud_cloud-init.disabled cloud-init.disabled
cd /etc/selinux
write _etc_selinux_config config
cd /etc/systemd/network
write _etc_systemd_network_80-dhcp.network 80-dhcp.network
cd /boot
write ignition.cpio ignition.cpio
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	f, err := os.Open(filepath.Join(work, "ignition.cpio"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(f))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]uint64{}
	for _, r := range records {
		modes[r.Name] = r.Mode
	}
	wantModes := map[string]uint64{
		"usr/lib/ignition": 0o40755, "scripts/local-bottom": 0o40755, "usr/bin/ignition": 0o100755, "usr/sbin/setfiles": 0o100755,
		"scripts/local-bottom/ignition": 0o100755, "scripts/local-bottom/ORDER": 0o100644,
	}
	if diff := cmp.Diff(wantModes, modes); diff != "" {
		t.Error(diff)
	}
	if out, err := exec.Command("sh", "-n", filepath.Join("ignition", "first-boot")).CombinedOutput(); err != nil {
		t.Errorf("first-boot: %s", out)
	}
}
