// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// CleaningOfDisk says how one disk is cleaned when its host is: as the first entry
// says whose hints hold for it, else as mode says.
func CleaningOfDisk(disk infrav1.HardwareDisk, mode infrav1.CleaningMode, single []infrav1.DiskCleaning) infrav1.CleaningMode {
	for _, s := range single {
		if hintsHold(disk, &s.Hints) {
			return s.Mode
		}
	}
	return mode
}

// Bounds of what is kept of a cleaning (the schema's).
const (
	maxCleanedDisks = 64
	maxMethod       = 64
	maxFailedBefore = 512
	maxDiskName     = 128
)

// CleanedDisks is what the ledger keeps of an agent's report about its disks. What
// the schema would not take is left out, so that the report itself is taken.
func CleanedDisks(reported []agentapi.CleanedDisk) []infrav1.CleanedDisk {
	var out []infrav1.CleanedDisk
	for _, r := range reported[:min(len(reported), maxCleanedDisks)] {
		disk := infrav1.CleanedDisk{
			Disk: diskReference(r.Disk), Mode: infrav1.CleaningMode(r.Mode),
			Method: truncate(r.Method, maxMethod), FailedBefore: truncate(r.FailedBefore, maxFailedBefore),
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
