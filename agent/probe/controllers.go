// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io/fs"
	"path"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
)

// storageClass is the PCI base class of mass storage controllers, as sysfs writes the
// class code (PCI Code and ID Assignment Specification, section 1.2).
const storageClass = "0x01"

// StorageWithoutDriver lists the PCI storage controllers that no driver of this kernel
// has taken: disks behind them are not seen.
func StorageWithoutDriver(root fs.FS) []agentapi.PCIDevice {
	entries, err := fs.ReadDir(root, "sys/bus/pci/devices")
	if err != nil {
		return nil
	}
	var out []agentapi.PCIDevice
	for _, e := range entries {
		dir := path.Join("sys/bus/pci/devices", e.Name())
		if !strings.HasPrefix(text(root, dir+"/class"), storageClass) || link(root, dir+"/driver") != "" {
			continue
		}
		id := func(name string) string { return strings.TrimPrefix(text(root, dir+"/"+name), "0x") }
		out = append(out, agentapi.PCIDevice{Address: e.Name(), ID: id("vendor") + ":" + id("device")})
	}
	return out
}
