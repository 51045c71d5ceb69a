// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/probe"
	"github.com/ingot-metal/ingot/agentapi"
)

func TestStorageWithoutDriver(t *testing.T) {
	const nvme = `
		sys/bus/pci/devices/0000:01:00.0 -> ../../../devices/pci0000:00/0000:01:00.0
		sys/devices/pci0000:00/0000:01:00.0/class = 0x010802\n
		sys/devices/pci0000:00/0000:01:00.0/driver -> ../../../bus/pci/drivers/nvme
		sys/bus/pci/drivers/nvme/x = x`
	const raid = `
		sys/bus/pci/devices/0000:3b:00.0 -> ../../../devices/pci0000:3a/0000:3b:00.0
		sys/devices/pci0000:3a/0000:3b:00.0/class = 0x010400\n
		sys/devices/pci0000:3a/0000:3b:00.0/vendor = 0x1000\n
		sys/devices/pci0000:3a/0000:3b:00.0/device = 0x0073\n`
	const fibre = `
		sys/bus/pci/devices/0000:5e:00.0 -> ../../../devices/pci0000:5d/0000:5e:00.0
		sys/devices/pci0000:5d/0000:5e:00.0/class = 0x0c0400\n
		sys/devices/pci0000:5d/0000:5e:00.0/vendor = 0x1077\n
		sys/devices/pci0000:5d/0000:5e:00.0/device = 0x2261\n`
	const network = `
		sys/bus/pci/devices/0000:02:00.0 -> ../../../devices/pci0000:00/0000:02:00.0
		sys/devices/pci0000:00/0000:02:00.0/class = 0x020000\n`
	const zoned = `
		sys/block/sdb -> ../devices/pci0000:00/0000:01:00.0/host2/target2:0:0/2:0:0:0/block/sdb
		sys/devices/pci0000:00/0000:01:00.0/host2/target2:0:0/2:0:0:0/block/sdb/device -> ../../../2:0:0:0
		sys/devices/pci0000:00/0000:01:00.0/host2/target2:0:0/2:0:0:0/type = 20\n`
	const ordered = `
		sys/block/nvme0n1 -> ../devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1
		sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/device -> ../../nvme0
		sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/queue/zoned = host-managed\n`
	for name, tc := range map[string]struct {
		tree string
		want []agentapi.PCIDevice
	}{
		"no PCI":                   {"", nil},
		"with a driver":            {nvme, []agentapi.PCIDevice{}},
		"no storage":               {network, []agentapi.PCIDevice{}},
		"Fibre Channel":            {fibre, []agentapi.PCIDevice{{Address: "0000:5e:00.0", ID: "1077:2261"}}},
		"zoned NVMe (ZNS)":         {nvme + ordered, []agentapi.PCIDevice{{Address: "0000:01:00.0", ID: ":"}}},
		"host-managed zoned disks": {nvme + zoned, []agentapi.PCIDevice{{Address: "0000:01:00.0", ID: ":"}}},
		"without a driver":         {nvme + raid + network, []agentapi.PCIDevice{{Address: "0000:3b:00.0", ID: "1000:0073"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, probe.StorageWithoutDriver(tree(tc.tree))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
