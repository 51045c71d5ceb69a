// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	usbInterface = regexp.MustCompile(`^[0-9]+-([0-9.]+:[0-9]+\.[0-9]+)$`)
	virtioDevice = regexp.MustCompile(`^virtio[0-9]+$`)
	scsiHost     = regexp.MustCompile(`^host([0-9]+)$`)
)

// byPath returns the name below /dev/disk/by-path that udev's builtin path_id makes for a
// disk; "" for unknown buses, or if udev makes no name. busPath, which differs for SAS and USB,
// must not change: recorded disk references contain it.
func byPath(root fs.FS, name, sysfs, address string) string {
	parts := strings.Split(sysfs, "/")
	var last []string
	switch m := nvmeDisk.FindStringSubmatch(name); {
	case m != nil:
		id := text(root, path.Join("sys/block", name, "nsid"))
		if id == "" {
			id = m[1]
		}
		last = []string{"nvme-" + id}
	case address != "":
		scsi := scsiPath(root, parts, address)
		if scsi == "" {
			return ""
		}
		last = []string{scsi}
	case !slices.ContainsFunc(parts, virtioDevice.MatchString):
		return "" // udev makes no name without a known bus
	}
	buses := busesOf(parts)
	if len(buses) == 0 {
		return ""
	}
	return strings.Join(append(buses, last...), "-")
}

// busesOf names the PCI and USB devices above a disk. Of consecutive bridges the last one
// counts. Other parts between bridges, for example in front of a bus that a driver makes
// (VMD), are omitted.
func busesOf(parts []string) []string {
	var buses []string
	for i, part := range parts {
		inRow := i+1 < len(parts) && pciAddress.MatchString(parts[i+1])
		if pciAddress.MatchString(part) && !inRow {
			buses = append(buses, "pci-"+part)
		}
		if m := usbInterface.FindStringSubmatch(part); m != nil {
			buses = append(buses, "usb-0:"+m[1])
		}
	}
	return buses
}

// scsiPath names a disk on its SCSI host by the host's transport; "" for unknown transports.
func scsiPath(root fs.FS, parts []string, address string) string {
	numbers := strings.Split(address, ":") // host, channel, target, lun
	at := slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "target"+numbers[0]+":") })
	if at < 3 {
		return ""
	}
	switch has := func(prefix string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(p, prefix) })
	}; {
	case has("rport-"):
		port := text(root, path.Join("sys/class/fc_transport", parts[at], "port_name"))
		return unlessEmpty(port, "fc-"+port+"-"+lun(numbers[3]))
	case has("end_device-"):
		return sasPath(root, parts[:at], lun(numbers[3]))
	case has("session"), has("vmbus"), has("VMBUS"):
		return ""
	}
	if i := slices.IndexFunc(parts, ataPort.MatchString); i >= 0 {
		port := text(root, path.Join(path.Join(parts[:i+1]...), "ata_port", parts[i], "port_no"))
		if numbers[1] != "0" { // behind a port multiplier
			return unlessEmpty(port, "ata-"+port+"."+numbers[1]+".0")
		}
		return unlessEmpty(port, "ata-"+port+"."+numbers[2]) // master and slave
	}
	return hostPath(root, parts, numbers)
}

// sasPath names the phy of the controller or expander to which the disk is attached, or the
// disk's own address if several phys lead to it. above ends in the end device, preceded by the
// port and the expander or host.
func sasPath(root fs.FS, above []string, unit string) string {
	of := func(class string, back int, file string) string {
		return text(root, path.Join("sys/class", class, above[len(above)-back], file))
	}
	if phys := of("sas_port", 2, "num_phys"); phys != "1" {
		own := of("sas_device", 1, "sas_address")
		return unlessEmpty(phys, unlessEmpty(own, "sas-"+own+"-"+unit))
	}
	phy := of("sas_device", 1, "phy_identifier")
	if expander := of("sas_device", 3, "sas_address"); expander != "" {
		return unlessEmpty(phy, "sas-exp"+expander+"-phy"+phy+"-"+unit)
	}
	return unlessEmpty(phy, "sas-phy"+phy+"-"+unit)
}

// hostPath names a disk by its SCSI address. Host numbers depend on the discovery order, so it
// counts from the lowest one of the same controller.
func hostPath(root fs.FS, parts, numbers []string) string {
	at := slices.IndexFunc(parts, scsiHost.MatchString)
	if at < 0 {
		return ""
	}
	host, err := strconv.Atoi(numbers[0])
	if err != nil {
		return ""
	}
	siblings, err := fs.ReadDir(root, path.Join(parts[:at]...))
	if err != nil {
		return ""
	}
	lowest := host
	for _, sibling := range siblings {
		if m := scsiHost.FindStringSubmatch(sibling.Name()); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				lowest = min(lowest, n)
			}
		}
	}
	return fmt.Sprintf("scsi-%d:%s", host-lowest, strings.Join(numbers[1:], ":"))
}

// lun formats a LUN as udev does: decimal for peripheral addressing, else hexadecimal.
func lun(number string) string {
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || n < 256 {
		return "lun-" + number
	}
	return fmt.Sprintf("lun-0x%04x%04x00000000", n&0xffff, n>>16)
}

func unlessEmpty(needed, name string) string {
	if needed == "" {
		return ""
	}
	return name
}
