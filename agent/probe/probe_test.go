// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/probe"
	"github.com/ingot-metal/ingot/agentapi"
)

// tree makes a file system from lines "path = content" and "path -> target".
func tree(lines string) fstest.MapFS {
	out := fstest.MapFS{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if path, target, ok := strings.Cut(line, " -> "); ok {
			out[path] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
		} else if path, content, ok := strings.Cut(line, " = "); ok {
			content = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00", `\x80`, "\x80").Replace(content)
			out[path] = &fstest.MapFile{Data: []byte(content)}
		}
	}
	return out
}

const cpuinfo = `proc/cpuinfo = processor\t: 0\nmodel name\t: Some  CPU @ 2.0GHz\nphysical id\t: 0\ncpu cores\t: 2\n\n` +
	`processor\t: 1\nmodel name\t: Some  CPU @ 2.0GHz\nphysical id\t: 0\ncpu cores\t: 2\n\n` +
	`processor\t: 2\nmodel name\t: Some  CPU @ 2.0GHz\nphysical id\t: 1\ncpu cores\t: 2\n\n` + "\n"

func TestRead(t *testing.T) {
	for _, tc := range []struct {
		name, tree string
		want       agentapi.Hardware
	}{
		{
			name: "a server", tree: cpuinfo + `
				proc/meminfo = MemTotal:        2048 kB\nMemFree: 1 kB\n
				sys/firmware/efi/systab = x
				sys/class/dmi/id/product_uuid = 4C4C4544-0000-2010-8020-80C04F202020\n
				sys/class/dmi/id/product_serial = SN001\n
				sys/class/dmi/id/sys_vendor = Maker\n
				sys/class/dmi/id/product_name = R1\n`,
			want: agentapi.Hardware{
				UUID: "4c4c4544-0000-2010-8020-80c04f202020", Serial: "SN001", Manufacturer: "Maker", Product: "R1",
				Firmware: "UEFI", MemoryBytes: 1 << 30,
				CPU: agentapi.CPU{Model: "Some CPU @ 2.0GHz", Sockets: 2, Cores: 4, Threads: 3},
			},
		},
		{
			name: "placeholders, no topology", tree: `proc/cpuinfo = processor : 0\nprocessor : 1\n
				sys/class/dmi/id/product_uuid = 00000000-0000-0000-0000-000000000000\n
				sys/class/dmi/id/product_serial = To Be Filled By O.E.M.\n
				sys/class/dmi/id/sys_vendor = Default string\n
				sys/class/dmi/id/product_name = System Product Name\n`,
			want: agentapi.Hardware{Firmware: "BIOS", CPU: agentapi.CPU{Sockets: 1, Cores: 2, Threads: 2}},
		},
		{
			name: "network interfaces", tree: cpuinfo + `
				sys/class/net/lo -> ../../devices/virtual/net/lo
				sys/devices/virtual/net/lo/type = 772
				sys/class/net/eth0 -> ../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0
				sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/type = 1
				sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/address = 52:54:00:AA:bb:01\n
				sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/carrier = 1\n
				sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/speed = -1\n
				sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/device -> ../..
				sys/devices/pci0000:00/0000:00:03.0/virtio0/driver -> ../../../../bus/virtio/drivers/virtio_net
				sys/bus/virtio/drivers/virtio_net/x = x
				sys/class/net/eth1 -> ../../devices/pci0000:00/0000:00:1c.0/0000:02:00.1/net/eth1
				sys/devices/pci0000:00/0000:00:1c.0/0000:02:00.1/net/eth1/type = 1
				sys/devices/pci0000:00/0000:00:1c.0/0000:02:00.1/net/eth1/address = 52:54:00:00:00:02\n
				sys/devices/pci0000:00/0000:00:1c.0/0000:02:00.1/net/eth1/speed = 25000\n
				sys/devices/pci0000:00/0000:00:1c.0/0000:02:00.1/net/eth1/device -> ../..
				sys/devices/pci0000:00/0000:00:1c.0/0000:02:00.1/vendor = x
				sys/class/net/vf0 -> ../../devices/pci0000:00/0000:02:01.0/net/vf0
				sys/devices/pci0000:00/0000:02:01.0/net/vf0/type = 1
				sys/devices/pci0000:00/0000:02:01.0/net/vf0/device -> ../..
				sys/devices/pci0000:00/0000:02:01.0/physfn = x`,
			want: agentapi.Hardware{
				Firmware: "BIOS", CPU: agentapi.CPU{Model: "Some CPU @ 2.0GHz", Sockets: 2, Cores: 4, Threads: 3},
				NICs: []agentapi.NIC{
					{Name: "eth0", MAC: "52:54:00:aa:bb:01", Carrier: true, Driver: "virtio_net", PCI: "0000:00:03.0"},
					{Name: "eth1", MAC: "52:54:00:00:00:02", SpeedMbps: 25000, PCI: "0000:02:00.1"},
				},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := probe.Read(tree(tc.tree))
			if err != nil {
				t.Fatal(err)
			}
			got.Architecture = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := probe.Read(fstest.MapFS{}); err == nil {
		t.Error("hardware without processors")
	}
}

func TestDisks(t *testing.T) {
	for _, tc := range []struct {
		name, tree string
		want       []agentapi.Disk
	}{
		{"none", "", nil},
		{"virtio with a serial", `
			sys/block/vda -> ../devices/pci0000:00/0000:00:04.0/virtio1/block/vda
			sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/size = 2048\n
			sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/serial = VD1\0\0
			sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/queue/rotational = 1\n
			sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/device -> ../..
			sys/devices/pci0000:00/0000:00:04.0/virtio1/vendor = 0x1af4\n`,
			[]agentapi.Disk{{Name: "/dev/vda", Serial: "VD1", SizeBytes: 1 << 20, Rotational: true, Path: "pci-0000:00:04.0", ByPath: "pci-0000:00:04.0"}},
		},
		{"virtio without a serial is named by its place", `
			sys/block/vdb -> ../devices/pci0000:00/0000:00:05.0/virtio2/block/vdb
			sys/devices/pci0000:00/0000:00:05.0/virtio2/block/vdb/size = 2048\n
			sys/devices/pci0000:00/0000:00:05.0/virtio2/block/vdb/device -> ../..
			sys/devices/pci0000:00/0000:00:05.0/virtio2/vendor = 0x1af4\n`,
			[]agentapi.Disk{{Name: "/dev/vdb", SizeBytes: 1 << 20, Path: "pci-0000:00:05.0", ByPath: "pci-0000:00:05.0"}},
		},
		{"NVMe", `
			sys/block/nvme0n1 -> ../devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1
			sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/size = 4096\n
			sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/wwid = eui.0025385b71b00001\n
			sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/queue/rotational = 0\n
			sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/device -> ..
			sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/model = Fast Disk      \n
			sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/serial = S1        \n`,
			[]agentapi.Disk{{
				Name: "/dev/nvme0n1", Model: "Fast Disk", Serial: "S1", WWN: "eui.0025385b71b00001", SizeBytes: 2 << 20,
				Path: "pci-0000:01:00.0-nvme-1", ByPath: "pci-0000:01:00.0-nvme-1",
			}},
		},
		{"SATA", `
			sys/block/sda -> ../devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda
			sys/devices/pci0000:00/0000:00:1f.2/ata3/ata_port/ata3/port_no = 1\n
			sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda/size = 2048\n
			sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/block/sda/device -> ../../../2:0:0:0
			sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/type = 0\n
			sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/vendor = ATA     \n
			sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/model = QEMU HARDDISK   \n
			sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/wwid = naa.5000C500A1B2C3D4\n
			sys/devices/pci0000:00/0000:00:1f.2/ata3/host2/target2:0:0/2:0:0:0/vpd_pg80 = \0` + `\x80\0` + "\x14" + `  QM00001   `,
			[]agentapi.Disk{{
				Name: "/dev/sda", Vendor: "ATA", Model: "QEMU HARDDISK", Serial: "QM00001", WWN: "0x5000c500a1b2c3d4", SizeBytes: 1 << 20,
				HCTL: "2:0:0:0", Path: "pci-0000:00:1f.2-ata-1", ByPath: "pci-0000:00:1f.2-ata-1.0",
			}},
		},
		{"SAS behind a controller, name made of vendor and serial", `
			sys/block/sdb -> ../devices/pci0000:00/0000:03:00.0/host7/target7:2:5/7:2:5:0/block/sdb
			sys/devices/pci0000:00/0000:03:00.0/host7/target7:2:5/7:2:5:0/block/sdb/size = 2048\n
			sys/devices/pci0000:00/0000:03:00.0/host7/target7:2:5/7:2:5:0/block/sdb/device -> ../../../7:2:5:0
			sys/devices/pci0000:00/0000:03:00.0/host7/target7:2:5/7:2:5:0/type = 0\n
			sys/devices/pci0000:00/0000:03:00.0/host7/target7:2:5/7:2:5:0/wwid = t10.ATA SOMETHING\n`,
			[]agentapi.Disk{{Name: "/dev/sdb", SizeBytes: 1 << 20, HCTL: "7:2:5:0", Path: "pci-0000:03:00.0-scsi-0:2:5:0", ByPath: "pci-0000:03:00.0-scsi-0:2:5:0"}},
		},
		{"an array of aacraid, which it calls removable", `
			sys/block/sda -> ../devices/pci0000:80/0000:80:01.0/0000:81:00.0/host0/target0:0:0/0:0:0:0/block/sda
			sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/host0/target0:0:0/0:0:0:0/block/sda/size = 2048\n
			sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/host0/target0:0:0/0:0:0:0/block/sda/removable = 1\n
			sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/host0/target0:0:0/0:0:0:0/block/sda/device/type = 0\n`,
			[]agentapi.Disk{{Name: "/dev/sda", SizeBytes: 1 << 20, Path: "pci-0000:81:00.0"}},
		},
		{"what is no disk to install on", `
			sys/block/loop0/size = 2048
			sys/block/loop0/device/x = x
			sys/block/zram0/size = 2048
			sys/block/zram0/device/x = x
			sys/block/dm-0/size = 2048
			sys/block/dm-0/device/x = x
			sys/block/md127/size = 2048
			sys/block/md127/device/x = x
			sys/block/mmcblk0boot0/size = 2048
			sys/block/mmcblk0boot0/device/x = x
			sys/block/sda -> ../devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sda
			sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sda/size = 2048
			sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sda/removable = 1
			sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sda/device/x = x
			sys/block/sdb/size = 2048
			sys/block/sdb/ro = 1
			sys/block/sdb/device/x = x
			sys/block/sdc/size = 0
			sys/block/sdc/device/x = x
			sys/block/sdd/size = 2048
			sys/block/nvme0c0n1/size = 2048
			sys/block/nvme0c0n1/hidden = 1
			sys/block/nvme0c0n1/device/x = x
			sys/block/nvme1n1/size = 2048
			sys/block/nvme1n1/queue/zoned = host-managed
			sys/block/nvme1n1/device/x = x`, nil},
		{"a name with a slash", `
			sys/block/cciss!c0d0/size = 2048
			sys/block/cciss!c0d0/device/x = x`,
			[]agentapi.Disk{{Name: "/dev/cciss/c0d0", SizeBytes: 1 << 20}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, probe.Disks(tree(tc.tree))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
