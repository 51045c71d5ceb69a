// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Limits of the schema of IngotHardware.
const (
	maxNICs      = 64
	MaxDisks     = 256
	maxText      = 256
	maxShort     = 64
	maxDiskID    = 128
	maxDiskPath  = 256
	maxSCSI      = 32
	maxSystemID  = 64
	macCharacter = "[0-9a-f]{2}"

	maxControllers = 32

	maxNICAddresses = 16
)

// IsInspected reports whether an agent has reported the hardware. Before that, the IngotHardware may
// only have an address for the boot of the agent.
func IsInspected(hardware *infrav1.IngotHardware) bool {
	if hardware == nil {
		return false
	}
	facts := hardware.Spec
	return facts.Architecture != "" || len(facts.NICs) > 0 || len(facts.Disks) > 0
}

// HardwareFromAgent converts an agent's report into facts that the schema of IngotHardware accepts,
// even from a broken or hostile server. It shortens descriptive texts. It keeps or drops
// identifiers (MAC address, kernel name, serial number, WWN, path) as a whole, because a shortened
// one may name something else. NICs are sorted by MAC address and disks by name, without
// duplicates. The agent cannot set the recorded address.
func HardwareFromAgent(hardware agentapi.Hardware) infrav1.IngotHardwareSpec {
	return infrav1.IngotHardwareSpec{
		System: infrav1.HardwareSystem{
			UUID:         whole(strings.ToLower(hardware.UUID), maxSystemID),
			SerialNumber: whole(hardware.Serial, maxText),
			Manufacturer: cut(hardware.Manufacturer, maxText),
			Product:      cut(hardware.Product, maxText),
		},
		Architecture: oneOf(hardware.Architecture, "amd64", "arm64"),
		BootMode:     infrav1.BootMode(oneOf(hardware.Firmware, string(infrav1.BootModeUEFI), string(infrav1.BootModeBIOS))),
		CPU: infrav1.HardwareCPU{
			Model:   cut(hardware.CPU.Model, maxText),
			Sockets: max(hardware.CPU.Sockets, 0),
			Cores:   max(hardware.CPU.Cores, 0),
			Threads: max(hardware.CPU.Threads, 0),
		},
		MemoryBytes: max(hardware.MemoryBytes, 0),
		NICs:        nicsFromAgent(hardware.NICs),
		Disks:       disksFromAgent(hardware.Disks),

		StorageWithoutDriver: controllersFromAgent(hardware.StorageWithoutDriver),
	}
}

func controllersFromAgent(devices []agentapi.PCIDevice) []infrav1.HardwareController {
	byAddress := map[string]infrav1.HardwareController{}
	for _, device := range devices {
		address := whole(device.Address, maxShort)
		if _, twice := byAddress[address]; twice || address == "" {
			continue
		}
		byAddress[address] = infrav1.HardwareController{Address: address, ID: cut(device.ID, maxShort)}
	}
	return firstByKey(byAddress, maxControllers)
}

// DescribeControllers lists at most six storage controllers for a message.
func DescribeControllers(controllers []infrav1.HardwareController) string {
	var list []string
	for _, c := range controllers {
		list = append(list, strings.TrimSpace(c.ID+" at "+c.Address))
	}
	return ListSome(list, 6)
}

// UnseenStorageRemedy is what an operator can do about storage that the agent does not see. It has no
// final period.
const UnseenStorageRemedy = "Set the controller to AHCI or HBA mode, add its driver to the agent's image, or repair it. Clean zoned disks with blkzone reset"

// GlobalAddresses returns at most so many global addresses among the texts, sorted with IPv4 first,
// without duplicates.
func GlobalAddresses(texts []string, most int) []string {
	var addresses []netip.Addr
	for _, text := range texts {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() || addr.IsUnspecified() {
			continue
		}
		addresses = append(addresses, addr.Unmap().WithZone(""))
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	addresses = slices.Compact(addresses)
	var out []string
	for _, addr := range addresses[:min(most, len(addresses))] {
		out = append(out, addr.String())
	}
	return out
}

func nicsFromAgent(nics []agentapi.NIC) []infrav1.HardwareNIC {
	mac := regexp.MustCompile("^" + macCharacter + "(:" + macCharacter + "){5}$")
	byMAC := map[string]infrav1.HardwareNIC{}
	for _, nic := range nics {
		address := strings.ToLower(nic.MAC)
		if _, twice := byMAC[address]; twice || !mac.MatchString(address) {
			continue
		}
		carrier := nic.Carrier
		byMAC[address] = infrav1.HardwareNIC{
			MAC:       address,
			Name:      cut(nic.Name, maxShort),
			SpeedMbps: max(nic.SpeedMbps, 0),
			Carrier:   &carrier,
			Driver:    cut(nic.Driver, maxShort),
			PCI:       cut(nic.PCI, maxShort),
			Addresses: GlobalAddresses(nic.Addresses, maxNICAddresses),
		}
	}
	return firstByKey(byMAC, maxNICs)
}

func disksFromAgent(disks []agentapi.Disk) []infrav1.HardwareDisk {
	byName := map[string]infrav1.HardwareDisk{}
	for _, disk := range disks {
		name := whole(disk.Name, maxShort)
		if _, twice := byName[name]; twice || name == "" {
			continue
		}
		size, rotational := max(disk.SizeBytes, 0), disk.Rotational
		byName[name] = infrav1.HardwareDisk{
			Name:         name,
			Model:        cut(disk.Model, maxText),
			Vendor:       cut(disk.Vendor, maxText),
			SerialNumber: whole(disk.Serial, maxDiskID),
			WWN:          whole(disk.WWN, maxDiskID),
			HCTL:         whole(disk.HCTL, maxSCSI),
			Path:         whole(disk.Path, maxDiskPath),
			ByPath:       whole(disk.ByPath, maxDiskPath),
			SizeBytes:    &size,
			Rotational:   &rotational,
		}
	}
	return firstByKey(byName, MaxDisks)
}

// firstByKey returns the first n values in the order of their keys, nil for none.
func firstByKey[V any](byKey map[string]V, n int) []V {
	keys := slices.Sorted(maps.Keys(byKey))
	var values []V
	for _, key := range keys[:min(n, len(keys))] {
		values = append(values, byKey[key])
	}
	return values
}

// cut returns the printable text, shortened to n characters.
func cut(text string, n int) string {
	return Truncate(printable(text), n)
}

// whole returns the text if it is printable and has at most n characters, else "".
func whole(text string, n int) string {
	trimmed := strings.TrimSpace(text)
	if printable(trimmed) != trimmed || Truncate(trimmed, n) != trimmed {
		return ""
	}
	return trimmed
}

func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text))
}

func oneOf(value string, allowed ...string) string {
	if slices.Contains(allowed, value) {
		return value
	}
	return ""
}

// AgentDiskRef converts a disk's reference for the agent.
func AgentDiskRef(ref infrav1.DiskReference) agentapi.DiskRef {
	agent := agentapi.DiskRef{Serial: ref.SerialNumber, WWN: ref.WWN, Path: ref.Path}
	if ref.SizeBytes != nil {
		agent.SizeBytes = *ref.SizeBytes
	}
	return agent
}

// Summarize returns the figures of the print columns.
func Summarize(spec infrav1.IngotHardwareSpec) infrav1.HardwareSummary {
	var bytes int64
	for _, disk := range spec.Disks {
		bytes += diskSize(disk)
	}
	return infrav1.HardwareSummary{
		Manufacturer: spec.System.Manufacturer,
		Product:      spec.System.Product,
		Cores:        spec.CPU.Cores,
		Memory:       MemoryQuantity(MemoryBytes(spec)),
		Disk:         DiskQuantity(bytes),
	}
}

// SummarizeBooted returns the part of the system's report for the host's status.
func SummarizeBooted(report infrav1.BootedSystem) *infrav1.BootedStatus {
	return &infrav1.BootedStatus{
		InstanceID: report.InstanceID, Hostname: report.Hostname, ReportTime: report.ReportTime,
		Interrupted: report.Interrupted, Sentinel: report.Sentinel,
	}
}

// MemoryBytes returns the memory of a host in bytes, rounded to whole GiB, because firmware and
// kernel reserve some: a server with 64 GiB reports a little less.
func MemoryBytes(facts infrav1.IngotHardwareSpec) int64 {
	return (facts.MemoryBytes + 1<<29) >> 30 << 30
}

// MemoryQuantity returns a size in bytes as a quantity, for example 64Gi.
func MemoryQuantity(bytes int64) *resource.Quantity {
	return resource.NewQuantity(bytes, resource.BinarySI)
}

// DiskQuantity returns a size in bytes, rounded down to whole GB, as a quantity, for example 480G.
func DiskQuantity(bytes int64) *resource.Quantity {
	return resource.NewQuantity(bytes/BytesPerGB*BytesPerGB, resource.DecimalSI)
}

// IsDescribed reports whether the facts have the result of an inspection, and not only Ingot's
// records about the boot and the BMC.
func IsDescribed(facts infrav1.IngotHardwareSpec) bool {
	return facts.System != (infrav1.HardwareSystem{}) || facts.Architecture != "" || len(facts.NICs) > 0 || len(facts.Disks) > 0
}
