// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// maxListed is how many disks a message lists.
const maxListed = 6

// UnmetHint is a root device hint that no disk meets.
type UnmetHint struct {
	// Field of rootDeviceHints, and its Value: a string or a bool.
	Field string
	Value any
	// Disks describes the present disks with their values.
	Disks string
}

// UnmetHints lists the hints that no disk meets. Without any, there may still be no disk that
// meets all hints.
func UnmetHints(disks []infrav1.HardwareDisk, hints *infrav1.RootDeviceHints) []UnmetHint {
	var unmet []UnmetHint
	for _, h := range apart(hints) {
		if !slices.ContainsFunc(disks, func(disk infrav1.HardwareDisk) bool { return MatchesHints(disk, &h.alone) }) {
			unmet = append(unmet, UnmetHint{Field: h.field, Value: h.value, Disks: listDisks(disks, h.of)})
		}
	}
	return unmet
}

// hint is a single root device hint.
type hint struct {
	field string
	value any
	alone infrav1.RootDeviceHints
	// of describes the value of a disk. Nil: the value is its name.
	of func(infrav1.HardwareDisk) string
}

// apart splits hints into single ones, in the order of the API.
func apart(hints *infrav1.RootDeviceHints) []hint {
	if hints == nil {
		return nil
	}
	var all []hint
	text := func(field, value string, alone infrav1.RootDeviceHints, of func(infrav1.HardwareDisk) string) {
		if value != "" {
			all = append(all, hint{field, value, alone, of})
		}
	}
	wwn := func(d infrav1.HardwareDisk) string { return quoted(d.WWN) }
	var place func(infrav1.HardwareDisk) string
	if strings.HasPrefix(hints.DeviceName, byPath) {
		place = func(d infrav1.HardwareDisk) string { return quoted(d.ByPath) }
	}
	text("deviceName", hints.DeviceName, infrav1.RootDeviceHints{DeviceName: hints.DeviceName}, place)
	text("hctl", hints.HCTL, infrav1.RootDeviceHints{HCTL: hints.HCTL}, func(d infrav1.HardwareDisk) string { return quoted(d.HCTL) })
	text("model", hints.Model, infrav1.RootDeviceHints{Model: hints.Model}, func(d infrav1.HardwareDisk) string { return quoted(d.Model) })
	text("vendor", hints.Vendor, infrav1.RootDeviceHints{Vendor: hints.Vendor}, func(d infrav1.HardwareDisk) string { return quoted(d.Vendor) })
	text("serialNumber", hints.SerialNumber, infrav1.RootDeviceHints{SerialNumber: hints.SerialNumber},
		func(d infrav1.HardwareDisk) string { return quoted(d.SerialNumber) })
	text("wwn", hints.WWN, infrav1.RootDeviceHints{WWN: hints.WWN}, wwn)
	text("wwnWithExtension", hints.WWNWithExtension, infrav1.RootDeviceHints{WWNWithExtension: hints.WWNWithExtension}, wwn)
	text("wwnVendorExtension", hints.WWNVendorExtension, infrav1.RootDeviceHints{WWNVendorExtension: hints.WWNVendorExtension}, wwn)
	if n := hints.MinSize; n != nil {
		all = append(all, hint{"minSize", n.String(), infrav1.RootDeviceHints{MinSize: n}, gigabytes})
	}
	if n := hints.MaxSize; n != nil {
		all = append(all, hint{"maxSize", n.String(), infrav1.RootDeviceHints{MaxSize: n}, gigabytes})
	}
	if spinning := hints.Rotational; spinning != nil {
		all = append(all, hint{"rotational", *spinning, infrav1.RootDeviceHints{Rotational: spinning}, turns})
	}
	return all
}

func quoted(text string) string {
	if text == "" {
		return "without"
	}
	return fmt.Sprintf("%q", text)
}

func gigabytes(disk infrav1.HardwareDisk) string {
	return fmt.Sprintf("(%s)", DiskQuantity(diskSize(disk)))
}

func turns(disk infrav1.HardwareDisk) string {
	if disk.Rotational == nil {
		return "unknown"
	}
	return fmt.Sprint(*disk.Rotational)
}

func describeHints(hints *infrav1.RootDeviceHints) string {
	if hints == nil {
		return fmt.Sprintf("no root device hints, at least %d GB", MinRootDiskBytes/BytesPerGB)
	}
	var said []string
	for _, h := range apart(hints) {
		said = append(said, fmt.Sprint(h.field, " ", h.value))
	}
	return "root device hints " + strings.Join(said, ", ")
}

func describeDisks(disks []infrav1.HardwareDisk) string { return listDisks(disks, gigabytes) }

// listDisks lists some disks by name, each with its value by of. Nil: the names only.
func listDisks(disks []infrav1.HardwareDisk, of func(infrav1.HardwareDisk) string) string {
	var list []string
	for _, disk := range slices.SortedFunc(slices.Values(disks), func(a, b infrav1.HardwareDisk) int { return cmp.Compare(a.Name, b.Name) }) {
		if of == nil {
			list = append(list, disk.Name)
			continue
		}
		list = append(list, disk.Name+" "+of(disk))
	}
	return ListSome(list, maxListed)
}
