// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"fmt"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// installedDisks returns the disks that the present claim was, or is being, installed to.
func installedDisks(host *infrav1.IngotHost) []infrav1.DiskReference {
	claim := host.Spec.Claim
	if claim == nil || claim.RootDisk == nil {
		return nil
	}
	return append([]infrav1.DiskReference{*claim.RootDisk}, claim.MirrorDisks...)
}

// missingDisks ends a wipe if a known disk is missing. A disk that the kernel found too late, or
// whose controller or cable has failed, would reach the next cluster with its data (I7). Only an
// inspection forgets a disk.
func missingDisks(host *infrav1.IngotHost, known *infrav1.IngotHardware, facts infrav1.IngotHardwareSpec) *problem {
	var before []infrav1.HardwareDisk
	if known != nil {
		before = known.Spec.Disks
	}
	return diskNotFound("Nothing was cleaned", lifecycle.MissingDisks(before, facts.Disks, installedDisks(host)))
}

// missingRoot ends an install if a disk is missing that the known facts select, or that an earlier
// attempt wrote. The next best disk may hold data that is still needed, and a disk that returns
// later would still boot (I12). Only an inspection forgets a disk.
func missingRoot(host *infrav1.IngotHost, known *infrav1.IngotHardware, facts infrav1.IngotHardwareSpec) *problem {
	claim := host.Spec.Claim
	var selected []infrav1.HardwareDisk
	if known != nil {
		// An error is ignored: the hints are checked against the disks found afterwards.
		selected, _ = inventory.SelectRootDisks(known.Spec.Disks, claim.RootDeviceHints, claim.SoftwareRAID)
	}
	return diskNotFound("Nothing was written", lifecycle.MissingDisks(selected, facts.Disks, installedDisks(host)))
}

// diskNotFound returns nil if no disk is missing.
func diskNotFound(outcome string, missing []infrav1.DiskReference) *problem {
	if len(missing) == 0 {
		return nil
	}
	return &problem{reason: agentapi.FailureDiskNotFound, message: inventory.Truncate(outcome+", because disks are missing: "+
		lifecycle.DescribeDisks(missing)+". Reconnect them. If they were removed for good, wait until the host is quarantined, then annotate it "+
		inventory.CommandText(infrav1.InspectAnnotation)+" and "+inventory.CommandText(infrav1.ClearQuarantineAnnotation)+". Ingot then uses the disks that the inspection finds.", maxMessage)}
}

// tooManyDisks ends a wipe of a server with more disks than an IngotHardware holds: Ingot would not
// know whether the others were cleaned (I7).
func tooManyDisks(kept, unnamed int) *problem {
	return &problem{reason: infrav1.ReasonTooManyDisks, message: fmt.Sprintf("Nothing was cleaned: the server shows %d disks, and Ingot supports %d. "+
		"Hide the others (zoning of the storage, or HBA setup), or clean the server yourself and use it for no cluster.", kept+unnamed, kept)}
}
