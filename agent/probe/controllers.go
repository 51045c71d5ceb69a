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

// storageClasses are the PCI classes of mass storage controllers and of Fibre Channel, as
// sysfs writes the class code (PCI Code and ID Assignment Specification, sections 1.2
// and 1.13).
var storageClasses = []string{"0x01", "0x0c04"}

// StorageWithoutDriver lists the PCI storage controllers that no driver of this kernel
// has taken, and those with disks that Disks leaves out since they cannot be written as
// others are: what is behind them is not seen. Drivers are there for what Disks has listed
// before. Nil: there is no PCI.
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

// hostManaged is what the kernel says of a disk whose zones are written in order only.
const hostManaged = "host-managed"

// zonedControllers are the PCI addresses of those with host-managed zoned disks.
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
