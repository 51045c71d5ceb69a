// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package kmod_test

import (
	"errors"
	"io"
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/kmod"
)

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

// modules contains a card's driver with two prerequisites, a bus driver, and one that the
// kernel refuses.
func modules() fstest.MapFS {
	return fstest.MapFS{
		"order": file("virtio: \nvirtio_pci: virtio\nvirtio_net: failover virtio\nfailover: \nbroken: \next4: ?crc ?broken jbd2\ncrc: \njbd2: crc\nscsi_mod: \n"),
		"alias": file("alias pci:v00001AF4d*sv*sd*bc*sc*i* virtio_pci\nalias virtio:d00000001v* virtio_net\nalias pci:v0000DEADd* broken\n" +
			"not an alias line\n"),
		"virtio.ko": file("virtio"), "virtio_pci.ko": file("virtio_pci"), "virtio_net.ko": file("virtio_net"),
		"failover.ko": file("failover"), "broken.ko": file("broken"), "ext4.ko": file("ext4"), "crc.ko": file("crc"),
		"jbd2.ko": file("jbd2"), "scsi_mod.ko": file("scsi_mod"),
	}
}

// kernel records the inserted modules.
type kernel struct {
	inserted []string
	onInsert func(name string)
}

func (k *kernel) insert(f fs.File, parameters string) error {
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	name := string(b)
	if name == "broken" {
		return errors.New("no such device")
	}
	if parameters != "" {
		name += " " + parameters
	}
	k.inserted = append(k.inserted, name)
	if k.onInsert != nil {
		k.onInsert(string(b))
	}
	return nil
}

func open(t *testing.T, k *kernel) *kmod.Set {
	t.Helper()
	set, err := kmod.Open(modules(), k.insert)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestSettleLoadsDriversOfNewDevices(t *testing.T) {
	sysfs := fstest.MapFS{
		"bus/pci/devices/0000:00:03.0/modalias": file("pci:v00001AF4d00001000sv00001AF4sd00000001bc02sc00i00\n"),
		"bus/pci/devices/0000:00:1f.0/modalias": file("pci:v00008086d00002918sv00001AF4sd00001100bc06sc01i00\n"),
	}
	k := &kernel{onInsert: func(name string) {
		if name == "virtio_pci" { // creates a virtio device
			sysfs["bus/virtio/devices/virtio0/modalias"] = file("virtio:d00000001v00001AF4\n")
		}
	}}
	set := open(t, k)
	n, err := set.Settle(sysfs)
	if err != nil || n != 4 {
		t.Errorf("%d modules, %v", n, err)
	}
	if diff := cmp.Diff([]string{"virtio", "virtio_pci", "failover", "virtio_net"}, k.inserted); diff != "" {
		t.Error(diff)
	}
	if n, err := set.Settle(sysfs); n != 0 || err != nil {
		t.Errorf("again: %d modules, %v", n, err)
	}
}

func TestFailedDriverDoesNotStopOthers(t *testing.T) {
	sysfs := fstest.MapFS{
		"bus/pci/devices/a/modalias": file("pci:v0000DEADd00000001\n"),
		"bus/pci/devices/b/modalias": file("pci:v00001AF4d00001000sv1sd1bc02sc00i00\n"),
	}
	k := &kernel{}
	if _, err := open(t, k).Settle(sysfs); err == nil {
		t.Error("no word about the driver that failed")
	}
	if diff := cmp.Diff([]string{"virtio", "virtio_pci"}, k.inserted); diff != "" {
		t.Error(diff)
	}
}

func TestLoad(t *testing.T) {
	k := &kernel{}
	set := open(t, k)
	for _, name := range []string{"ext4", "ext4", "builtin_in_the_kernel", "scsi_mod"} {
		if err := set.Load(name); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"crc", "jbd2", "ext4", "scsi_mod scan=sync"}, k.inserted); diff != "" {
		t.Error(diff)
	}
}

func TestLoadFails(t *testing.T) {
	set := open(t, &kernel{})
	for range 2 { // the failure repeats
		if err := set.Load("broken"); err == nil {
			t.Error("a module that the kernel refuses was loaded")
		}
	}
}

func TestOpenRequiresTheLists(t *testing.T) {
	for _, missing := range []string{"order", "alias"} {
		root := modules()
		delete(root, missing)
		if _, err := kmod.Open(root, (&kernel{}).insert); err == nil {
			t.Errorf("opened without %s", missing)
		}
	}
}
