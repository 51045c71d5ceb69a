// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe_test

import (
	"fmt"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/probe"
)

// Disks have udev's name below /dev/disk/by-path, and a bus path that must not change.
func TestByPath(t *testing.T) {
	const (
		sata     = "pci0000:00/0000:00:1f.2/ata3"
		expander = "pci0000:00/0000:00:01.0/0000:03:00.0/host7/port-7:0/expander-7:0/port-7:0:4/end_device-7:0:4"
		direct   = "pci0000:00/0000:00:01.0/0000:03:00.0/host7/port-7:2/end_device-7:2"
		channel  = "pci0000:00/0000:00:01.0/0000:04:00.0/host5/rport-5:0-2"
	)
	for name, c := range map[string]struct {
		// place is the path below sys/devices, files are other files.
		place, files string
		// want are ByPath and Path.
		want [2]string
	}{
		"NVMe":                     {"pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0/nvme0n1", "", [2]string{"pci-0000:01:00.0-nvme-1", "pci-0000:01:00.0-nvme-1"}},
		"NVMe, the name's another": {"pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/nsid = 2\\n", [2]string{"pci-0000:01:00.0-nvme-2", "pci-0000:01:00.0-nvme-1"}},
		"NVMe behind VMD":          {"pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0/nvme/nvme0/nvme0n1", "", [2]string{"pci-0000:64:00.5-pci-10000:01:00.0-nvme-1", "pci-10000:01:00.0-nvme-1"}},
		"NVMe with several paths":  {"virtual/nvme-subsystem/nvme-subsys0/nvme0n1", "", [2]string{"", ""}},
		"virtio":                   {"pci0000:00/0000:00:04.0/virtio1/block/vda", "", [2]string{"pci-0000:00:04.0", "pci-0000:00:04.0"}},
		"memory card":              {"pci0000:00/0000:00:1b.0/mmc_host/mmc0/mmc0:0001/block/mmcblk0", "", [2]string{"", "pci-0000:00:1b.0"}},
		"SATA":                     {sata + "/host2/target2:0:0/2:0:0:0/block/sda", "sys/devices/" + sata + "/ata_port/ata3/port_no = 1", [2]string{"pci-0000:00:1f.2-ata-1.0", "pci-0000:00:1f.2-ata-1"}},
		"a slave":                  {sata + "/host2/target2:0:1/2:0:1:0/block/sda", "sys/devices/" + sata + "/ata_port/ata3/port_no = 1", [2]string{"pci-0000:00:1f.2-ata-1.1", "pci-0000:00:1f.2-ata-1"}},
		"a port multiplier":        {sata + "/host2/target2:3:0/2:3:0:0/block/sda", "sys/devices/" + sata + "/ata_port/ata3/port_no = 1", [2]string{"pci-0000:00:1f.2-ata-1.3.0", "pci-0000:00:1f.2-ata-1"}},
		"SATA, its port unknown":   {sata + "/host2/target2:0:0/2:0:0:0/block/sda", "", [2]string{"", "pci-0000:00:1f.2-ata-3"}},
		"RAID":                     {"pci0000:00/0000:00:01.0/0000:03:00.0/host7/target7:2:5/7:2:5:0/block/sdb", "", [2]string{"pci-0000:03:00.0-scsi-0:2:5:0", "pci-0000:03:00.0-scsi-0:2:5:0"}},
		"the second host of one": {"pci0000:00/0000:03:00.0/host7/target7:0:1/7:0:1:0/block/sdb", "sys/devices/pci0000:00/0000:03:00.0/host6/x = x",
			[2]string{"pci-0000:03:00.0-scsi-1:0:1:0", "pci-0000:03:00.0-scsi-0:0:1:0"}},
		"virtio SCSI": {"pci0000:00/0000:00:05.0/virtio2/host3/target3:0:1/3:0:1:0/block/sda", "", [2]string{"pci-0000:00:05.0-scsi-0:0:1:0", "pci-0000:00:05.0-scsi-0:0:1:0"}},
		"SAS behind an expander": {expander + "/target7:0:5/7:0:5:0/block/sdc", `
			sys/class/sas_port/port-7:0:4/num_phys = 1\n
			sys/class/sas_device/end_device-7:0:4/phy_identifier = 12\n
			sys/class/sas_device/end_device-7:0:4/sas_address = 0x5000c500a1b2c3d5\n
			sys/class/sas_device/expander-7:0/sas_address = 0x500304801f0c2f3f\n`,
			[2]string{"pci-0000:03:00.0-sas-exp0x500304801f0c2f3f-phy12-lun-0", "pci-0000:03:00.0-scsi-0:0:5:0"}},
		"SAS at the controller": {direct + "/target7:0:6/7:0:6:0/block/sdc", "sys/class/sas_port/port-7:2/num_phys = 1\nsys/class/sas_device/end_device-7:2/phy_identifier = 3",
			[2]string{"pci-0000:03:00.0-sas-phy3-lun-0", "pci-0000:03:00.0-scsi-0:0:6:0"}},
		"SAS by a wide port": {direct + "/target7:0:6/7:0:6:1/block/sdc", "sys/class/sas_port/port-7:2/num_phys = 4\nsys/class/sas_device/end_device-7:2/sas_address = 0x5000c500a1b2c3d5",
			[2]string{"pci-0000:03:00.0-sas-0x5000c500a1b2c3d5-lun-1", "pci-0000:03:00.0-scsi-0:0:6:1"}},
		"SAS, its phy unknown": {direct + "/target7:0:6/7:0:6:0/block/sdc", "", [2]string{"", "pci-0000:03:00.0-scsi-0:0:6:0"}},
		"Fibre Channel": {channel + "/target5:0:2/5:0:2:7/block/sdd", "sys/class/fc_transport/target5:0:2/port_name = 0x50060e8010403a00",
			[2]string{"pci-0000:04:00.0-fc-0x50060e8010403a00-lun-7", "pci-0000:04:00.0-scsi-0:0:2:7"}},
		"Fibre Channel, a large number": {channel + "/target5:0:2/5:0:2:16640/block/sdd", "sys/class/fc_transport/target5:0:2/port_name = 0x50060e8010403a00",
			[2]string{"pci-0000:04:00.0-fc-0x50060e8010403a00-lun-0x4100000000000000", "pci-0000:04:00.0-scsi-0:0:2:16640"}},
		"USB": {"pci0000:00/0000:00:14.0/usb1/1-4/1-4.2/1-4.2:1.0/host9/target9:0:0/9:0:0:0/block/sde", "",
			[2]string{"pci-0000:00:14.0-usb-0:4.2:1.0-scsi-0:0:0:0", "pci-0000:00:14.0-scsi-0:0:0:0"}},
		"iSCSI":  {"platform/host8/session1/target8:0:0/8:0:0:1/block/sdf", "", [2]string{"", ""}},
		"no bus": {"platform/x/block/vda", "", [2]string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			disk, dir := path.Base(c.place), "sys/devices/"+c.place
			files := tree(fmt.Sprintf("sys/block/%s -> ../devices/%s\n%s/size = 2048\n%s/device -> ..", disk, c.place, dir, dir))
			if before, _, scsi := strings.Cut(c.place, "/block/sd"); scsi {
				files = tree(fmt.Sprintf("sys/block/%s -> ../devices/%s\n%s/size = 2048\n%s/device -> ../../../%s\nsys/devices/%s/type = 0", disk, c.place, dir, dir, path.Base(before), before))
			}
			maps.Copy(files, tree(c.files))
			disks := probe.Disks(files)
			if len(disks) != 1 {
				t.Fatalf("%d disks", len(disks))
			}
			if diff := cmp.Diff(c.want, [2]string{disks[0].ByPath, disks[0].Path}); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
}
