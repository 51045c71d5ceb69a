// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
)

// sectorSize is the unit of /sys/block/*/size, whatever the disk's sector size is.
const sectorSize = 512

var (
	hctl     = regexp.MustCompile(`^[0-9]+:[0-9]+:[0-9]+:[0-9]+$`)
	nvmeDisk = regexp.MustCompile(`^nvme[0-9]+n([0-9]+)$`)
	ataPort  = regexp.MustCompile(`^ata([0-9]+)$`)
	notADisk = regexp.MustCompile(`^(loop|ram|zram|dm-|md|sr|fd|nbd|mtdblock)|^mmcblk[0-9]+(boot|rpmb|gp)`)
)

// SCSI device types of disks (linux/scsi/scsi_proto.h: TYPE_DISK, TYPE_RBC), and of disks that
// accept only sequential writes (TYPE_ZBC: host-managed SMR).
const scsiDisk, scsiReduced, scsiZoned = "0", "14", "20"

// ofUSB matches the sysfs path of a device behind USB.
var ofUSB = regexp.MustCompile(`/usb[0-9]+/`)

// Disks lists whole, writable disks with a medium, without markers. It omits removable USB
// disks: sticks, card readers, a BMC's virtual media. On other buses the removable flag means
// nothing: aacraid sets it for every array to prevent the caching of partition tables, and
// libata set it for hot-plug bays.
func Disks(root fs.FS) []agentapi.Disk {
	entries, err := fs.ReadDir(root, "sys/block")
	if err != nil {
		return nil
	}
	var out []agentapi.Disk
	for _, e := range entries {
		if d, ok := disk(root, e.Name()); ok {
			out = append(out, d)
		}
	}
	return out
}

func disk(root fs.FS, name string) (agentapi.Disk, bool) {
	dir := path.Join("sys/block", name)
	size := number(root, dir+"/size") * sectorSize
	switch kind := text(root, dir+"/device/type"); {
	case notADisk.MatchString(name), size <= 0, !exists(root, dir+"/device"):
		return agentapi.Disk{}, false
	case text(root, dir+"/removable") == "1" && ofUSB.MatchString(link(root, dir)), text(root, dir+"/ro") == "1", text(root, dir+"/hidden") == "1":
		return agentapi.Disk{}, false
	case text(root, dir+"/queue/zoned") == hostManaged: // includes NVMe (ZNS)
		return agentapi.Disk{}, false
	case kind != "" && kind != scsiDisk && kind != scsiReduced && hctl.MatchString(path.Base(link(root, dir+"/device"))):
		return agentapi.Disk{}, false
	}
	d := agentapi.Disk{
		// Sysfs replaces a slash in a device name by an exclamation mark.
		Name:       "/dev/" + strings.ReplaceAll(name, "!", "/"),
		Model:      text(root, dir+"/device/model"),
		Vendor:     text(root, dir+"/device/vendor"),
		Serial:     serial(root, dir),
		WWN:        wwn(root, dir),
		SizeBytes:  size,
		Rotational: text(root, dir+"/queue/rotational") == "1",
	}
	if strings.HasPrefix(d.Vendor, "0x") {
		d.Vendor = "" // a virtio identifier, not a name
	}
	if address := path.Base(link(root, dir+"/device")); hctl.MatchString(address) {
		d.HCTL = address
	}
	d.Path = busPath(root, name, link(root, dir), d.HCTL)
	d.ByPath = byPath(root, name, link(root, dir), d.HCTL)
	return d, true
}

// serial returns the serial number: a file for virtio and NVMe, the vital product data page
// 0x80 (SPC-4 section 7.8.17) with a header of four bytes for SCSI and ATA.
func serial(root fs.FS, dir string) string {
	for _, file := range []string{"/serial", "/device/serial"} {
		if s := meaningful(text(root, dir+file)); s != "" {
			return s
		}
	}
	page, err := fs.ReadFile(root, dir+"/device/vpd_pg80")
	if err != nil || len(page) <= 4 || page[1] != 0x80 {
		return ""
	}
	return meaningful(strings.Trim(string(page[4:]), " \x00"))
}

// wwn returns the form of udev's ID_WWN: "0x…" for NAA names, "eui.…" and "nvme.…" unchanged.
// Names made of vendor and serial ("t10.…") are not world-wide names.
func wwn(root fs.FS, dir string) string {
	for _, file := range []string{"/wwid", "/device/wwid"} {
		id := strings.Join(strings.Fields(text(root, dir+file)), "_")
		if naa, ok := strings.CutPrefix(id, "naa."); ok {
			return "0x" + strings.ToLower(naa)
		}
		if strings.HasPrefix(id, "eui.") || strings.HasPrefix(id, "nvme.") || strings.HasPrefix(id, "uuid.") {
			return id
		}
	}
	return ""
}

// busPath returns the bus path of a disk, in a form similar to /dev/disk/by-path. byPath
// returns the exact form.
func busPath(root fs.FS, name, sysfs, address string) string {
	pci := lastPCI(sysfs)
	if pci == "" {
		return ""
	}
	out := "pci-" + pci
	if m := nvmeDisk.FindStringSubmatch(name); m != nil {
		return out + "-nvme-" + m[1]
	}
	parts := strings.Split(sysfs, "/")
	for i, part := range parts {
		if m := ataPort.FindStringSubmatch(part); m != nil {
			// The number in the name counts across all controllers, port_no does not.
			port := text(root, path.Join(path.Join(parts[:i+1]...), "ata_port", part, "port_no"))
			if port == "" {
				port = m[1]
			}
			return out + "-ata-" + port
		}
	}
	if address != "" {
		// The host number depends on the discovery order. Udev also counts from 0.
		_, rest, _ := strings.Cut(address, ":")
		return out + "-scsi-0:" + rest
	}
	return out
}
