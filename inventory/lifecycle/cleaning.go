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

// ReleaseCleaning returns how the disks are cleaned when a claim ends. It is the claim's mode,
// but at least Metadata for a mirror: the next system may use one disk, and the other one would
// start next to it with the same UUIDs and an unknown marker (I8).
func ReleaseCleaning(claim *infrav1.HostClaim) infrav1.CleaningMode {
	if claim.Cleaning == infrav1.CleaningNone && len(claim.MirrorDisks) > 0 {
		return infrav1.CleaningMetadata
	}
	return claim.Cleaning
}

// CleaningOfDisk returns how a disk is cleaned: by the first entry whose hints match, else by
// mode.
func CleaningOfDisk(disk infrav1.HardwareDisk, mode infrav1.CleaningMode, single []infrav1.DiskCleaning) infrav1.CleaningMode {
	for _, s := range single {
		if inventory.MatchesHints(disk, &s.Hints) {
			return s.Mode
		}
	}
	return mode
}

// MissingDisks returns the known and installed disks that are not among the found ones. It
// matches them by serial number and WWN, or by path, and ignores the size. Of several disks with
// the same names it requires as many.
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

// DescribeDisks lists at most six disks for a message.
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

// NotCleaned returns the disks of an order that the report does not show as cleaned. A disk
// with mode full needs a method that erases. Other disks only need a wipe.
func NotCleaned(order agentapi.CleanOrder, report agentapi.Report) []infrav1.DiskReference {
	var left []infrav1.DiskReference
	for i, ref := range order.Disks {
		full := order.Mode == agentapi.CleanFull
		if len(order.Modes) > 0 {
			full = order.Modes[i] == agentapi.CleanFull
		}
		cleaned := slices.ContainsFunc(report.Cleaned, func(c agentapi.CleanedDisk) bool {
			erased := c.Mode == agentapi.CleanFull && c.Method != "" && c.Method != agentapi.CleanMetadata
			return c.Disk == ref && (erased || !full)
		})
		if !cleaned && (full || !slices.Contains(report.CleanedDisks, ref)) {
			left = append(left, diskReference(ref))
		}
	}
	return left
}

// Limits of the schema for a cleaning. They allow every disk that an IngotHardware can have. A
// host with more disks is not cleaned.
const (
	maxCleanedDisks = inventory.MaxDisks
	maxMethod       = 64
	maxFailedBefore = 512
	maxDiskName     = 128
	// maxFailedBeforeAll is for all disks together, so that the object stays within etcd's limit.
	maxFailedBeforeAll = 64 * maxFailedBefore
)

// CleanedDisks returns what the ledger keeps of an agent's report about its disks. It omits what
// the schema would reject, so that the report itself is accepted.
func CleanedDisks(reported []agentapi.CleanedDisk) []infrav1.CleanedDisk {
	var out []infrav1.CleanedDisk
	reported = reported[:min(len(reported), maxCleanedDisks)]
	limit := min(maxFailedBefore, maxFailedBeforeAll/max(1, len(reported)))
	for _, r := range reported {
		disk := infrav1.CleanedDisk{
			Disk: diskReference(r.Disk), Mode: infrav1.CleaningMode(r.Mode),
			Method: inventory.Truncate(r.Method, maxMethod), FailedMethods: inventory.Truncate(r.FailedBefore, limit),
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

// diskReference converts a reference of the agent. It drops names that are too long, because a
// shortened name may be that of another disk.
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
