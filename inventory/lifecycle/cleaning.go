// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// ReleaseCleaning is how the disks are cleaned when a claim ends: as it says, and where the
// image is on several, their metadata at least. The next system may be installed on one of
// them, and the other would start beside it by itself, with the same UUIDs; nor would its
// marker be known by then (I8).
func ReleaseCleaning(claim *infrav1.HostClaim) infrav1.CleaningMode {
	if claim.Cleaning == infrav1.CleaningNone && len(claim.MirrorDisks) > 0 {
		return infrav1.CleaningMetadata
	}
	return claim.Cleaning
}

// CleaningOfDisk says how one disk is cleaned when its host is: as the first entry
// says whose hints hold for it, else as mode says.
func CleaningOfDisk(disk infrav1.HardwareDisk, mode infrav1.CleaningMode, single []infrav1.DiskCleaning) infrav1.CleaningMode {
	for _, s := range single {
		if inventory.MatchesHints(disk, &s.Hints) {
			return s.Mode
		}
	}
	return mode
}

// MissingDisks are those that were known of a host, or that its claim was installed to,
// and that are not among the disks found. A disk is known again by its serial number and
// WWN, or by its path; its size does not matter. Of several that these name alike as many
// have to be found.
func MissingDisks(known, found []infrav1.HardwareDisk, installed []infrav1.DiskReference) []infrav1.DiskReference {
	var missing []infrav1.DiskReference
	look := func(ref infrav1.DiskReference) {
		count := func(disks []infrav1.HardwareDisk) (n int) {
			for _, disk := range disks {
				if inventory.DiskNames(ref, disk) {
					n++
				}
			}
			return n
		}
		already := func(m infrav1.DiskReference) bool {
			return m.SerialNumber == ref.SerialNumber && m.WWN == ref.WWN && m.Path == ref.Path
		}
		if count(found) < max(1, count(known)) && !slices.ContainsFunc(missing, already) {
			missing = append(missing, ref)
		}
	}
	for _, ref := range installed {
		look(ref)
	}
	for _, disk := range known {
		look(inventory.DiskRefOf(disk))
	}
	return missing
}

// DescribeDisks names disks for people, six at most.
func DescribeDisks(refs []infrav1.DiskReference) string {
	var list []string
	for _, ref := range refs {
		var said []string
		for _, s := range []struct{ name, value string }{{"serial number", ref.SerialNumber}, {"WWN", ref.WWN}, {"path", ref.Path}} {
			if s.value != "" {
				said = append(said, s.name+" "+s.value)
			}
		}
		if ref.SizeBytes != nil {
			said = append(said, fmt.Sprintf("%d GB", *ref.SizeBytes/inventory.BytesPerGB))
		}
		list = append(list, "disk with "+strings.Join(said, ", "))
	}
	return inventory.ListSome(list, 6)
}

// NotCleaned are the disks of an order that a report does not show to be cleaned as it
// says. Each that was to be erased has to be among those cleaned, by a method that erases;
// of others it is enough that they were wiped.
func NotCleaned(order agentapi.WipeOrder, report agentapi.Report) []infrav1.DiskReference {
	var left []infrav1.DiskReference
	for i, ref := range order.Disks {
		full := order.Mode == agentapi.WipeFull
		if len(order.Modes) > 0 {
			full = order.Modes[i] == agentapi.WipeFull
		}
		cleaned := slices.ContainsFunc(report.Cleaned, func(c agentapi.CleanedDisk) bool {
			erased := c.Mode == agentapi.WipeFull && c.Method != "" && c.Method != agentapi.WipeMetadata
			return c.Disk == ref && (erased || !full)
		})
		if !cleaned && (full || !slices.Contains(report.WipedDisks, ref)) {
			left = append(left, diskReference(ref))
		}
	}
	return left
}

// Bounds of what is kept of a cleaning (the schema's). It has room for every disk that an
// IngotHardware holds; a host with more is not cleaned.
const (
	maxCleanedDisks = inventory.MaxDisks
	maxMethod       = 64
	maxFailedBefore = 512
	maxDiskName     = 128
	// maxFailedBeforeAll is for all disks together: of many less is said of each, so that
	// the object stays within what etcd takes.
	maxFailedBeforeAll = 64 * maxFailedBefore
)

// CleanedDisks is what the ledger keeps of an agent's report about its disks. What
// the schema would not take is left out, so that the report itself is taken.
func CleanedDisks(reported []agentapi.CleanedDisk) []infrav1.CleanedDisk {
	var out []infrav1.CleanedDisk
	reported = reported[:min(len(reported), maxCleanedDisks)]
	words := min(maxFailedBefore, maxFailedBeforeAll/max(1, len(reported)))
	for _, r := range reported {
		disk := infrav1.CleanedDisk{
			Disk: diskReference(r.Disk), Mode: infrav1.CleaningMode(r.Mode),
			Method: inventory.Truncate(r.Method, maxMethod), FailedBefore: inventory.Truncate(r.FailedBefore, words),
		}
		known := disk.Mode == infrav1.CleaningMetadata || disk.Mode == infrav1.CleaningFull
		if !known || disk.Method == "" || disk.Disk == (infrav1.DiskReference{}) {
			continue
		}
		if r.ErasedBytes >= 0 && r.VerifiedBytes >= 0 {
			disk.ErasedBytes, disk.VerifiedBytes = &r.ErasedBytes, &r.VerifiedBytes
		}
		out = append(out, disk)
	}
	return out
}

// diskReference reads a reference from the wire; names that are too long are dropped,
// not cut: half an identity names something else.
func diskReference(ref agentapi.DiskRef) infrav1.DiskReference {
	within := func(name string, limit int) string {
		if len(name) > limit {
			return ""
		}
		return name
	}
	out := infrav1.DiskReference{
		SerialNumber: within(ref.Serial, maxDiskName), WWN: within(ref.WWN, maxDiskName), Path: within(ref.Path, 2*maxDiskName),
	}
	if ref.SizeBytes > 0 {
		out.SizeBytes = &ref.SizeBytes
	}
	return out
}
