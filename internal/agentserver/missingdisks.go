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

// installedDisks are those that the present claim was, or is being, installed to.
func installedDisks(host *infrav1.IngotHost) []infrav1.DiskReference {
	claim := host.Spec.Claim
	if claim == nil || claim.RootDisk == nil {
		return nil
	}
	return append([]infrav1.DiskReference{*claim.RootDisk}, claim.MirrorDisks...)
}

// missingDisks ends a wipe for which not all disks are there: a disk that the kernel did
// not find in time, or whose controller or cable has failed, would go to the next cluster
// with what is on it (I7). Only an inspection forgets a disk.
func missingDisks(host *infrav1.IngotHost, known *infrav1.IngotHardware, facts infrav1.IngotHardwareSpec) *problem {
	var before []infrav1.HardwareDisk
	if known != nil {
		before = known.Spec.Disks
	}
	missing := lifecycle.MissingDisks(before, facts.Disks, installedDisks(host))
	if len(missing) == 0 {
		return nil
	}
	return diskNotFound("Nothing was cleaned, because the server does not show all its disks", missing,
		"Ingot then cleans the disks that the inspection finds")
}

// missingRoot ends an install for which the disk is not there that it would go to by what
// is known of the host, or that an earlier attempt went to: the next best is another disk,
// with content that nobody has given up, and one that comes back later would still boot
// (I12). Only an inspection forgets a disk.
func missingRoot(host *infrav1.IngotHost, known *infrav1.IngotHardware, facts infrav1.IngotHardwareSpec) *problem {
	claim := host.Spec.Claim
	var meant []infrav1.HardwareDisk
	if known != nil {
		// What does not suit by what is known may by what is found: that decides.
		meant, _ = inventory.SelectRootDisks(known.Spec.Disks, claim.RootDeviceHints, claim.SoftwareRAID)
	}
	missing := lifecycle.MissingDisks(meant, facts.Disks, installedDisks(host))
	if len(missing) == 0 {
		return nil
	}
	return diskNotFound("Nothing was written, because the server does not show the disk that it is to be installed to", missing,
		"Ingot then installs to the disks that the inspection finds")
}

// diskNotFound says what an operator can do about disks that are not there.
func diskNotFound(what string, missing []infrav1.DiskReference, then string) *problem {
	return &problem{reason: agentapi.FailureDiskNotFound, message: inventory.Truncate(what+". Missing: "+
		lifecycle.DescribeDisks(missing)+". Reconnect what is missing. If it was taken out for good: once the host is quarantined annotate it "+
		inventory.CommandText(infrav1.InspectAnnotation)+" and "+inventory.CommandText(infrav1.ClearQuarantineAnnotation)+"; "+then, maxMessage)}
}

// tooManyDisks ends a wipe of a server with more disks than an IngotHardware holds: those
// that it does not hold would be handed on with what is on them (I7).
func tooManyDisks(kept, unnamed int) *problem {
	return &problem{reason: infrav1.ReasonTooManyDisks, message: fmt.Sprintf("Nothing was cleaned, because the server shows %d disks and Ingot can keep account of %d. "+
		"Take the others from the server's view (the zoning of its storage, or the HBA's BIOS), or clean it yourself and give it to no cluster", kept+unnamed, kept)}
}
