// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
)

// storageClasses are the class codes of mass storage and Fibre Channel controllers in sysfs
// (PCI Code and ID Assignment Specification, sections 1.2 and 1.13).
var storageClasses = []string{"0x01", "0x0c04"}

// StorageWithoutDriver lists the PCI storage controllers without a driver in this kernel, and
// those with disks that Disks omits because they accept only sequential writes. Call Disks
// first: it makes drivers load. Nil: there is no PCI bus.
func StorageWithoutDriver(root fs.FS) []agentapi.PCIDevice {
	entries, err := fs.ReadDir(root, "sys/bus/pci/devices")
	if err != nil {
		return nil
	}
	zoned := zonedControllers(root)
	out := []agentapi.PCIDevice{}
	for _, e := range entries {
		dir := path.Join("sys/bus/pci/devices", e.Name())
		class := text(root, dir+"/class")
		idle := slices.ContainsFunc(storageClasses, func(c string) bool { return strings.HasPrefix(class, c) }) && link(root, dir+"/driver") == ""
		if !idle && !slices.Contains(zoned, e.Name()) {
			continue
		}
		id := func(name string) string { return strings.TrimPrefix(text(root, dir+"/"+name), "0x") }
		out = append(out, agentapi.PCIDevice{Address: e.Name(), ID: id("vendor") + ":" + id("device")})
	}
	return out
}

// hostManaged is the kernel's zone model of a disk whose zones accept only sequential writes.
const hostManaged = "host-managed"

// zonedControllers returns the PCI addresses of controllers with host-managed zoned disks.
func zonedControllers(root fs.FS) []string {
	entries, err := fs.ReadDir(root, "sys/block")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		dir := path.Join("sys/block", e.Name())
		scsi := text(root, dir+"/device/type") == scsiZoned && hctl.MatchString(path.Base(link(root, dir+"/device")))
		if scsi || exists(root, dir+"/device") && text(root, dir+"/queue/zoned") == hostManaged {
			out = append(out, lastPCI(link(root, dir)))
		}
	}
	return out
}
