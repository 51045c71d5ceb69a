// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"slices"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file records images that do not fit a host, although both are good. Without that record
// the selection, which prefers the best fit, would choose the same host forever.

// maxRefusedImages is the limit of the schema.
const maxRefusedImages = 8

// refusedByHost reports whether an install that failed with the reason would fail again on this
// host, but may succeed on another.
func refusedByHost(reason string) bool {
	switch reason {
	case agentapi.FailureDiskTooSmall, agentapi.FailureSectorsDiffer, agentapi.FailureOldSystem, agentapi.FailureMirrorRefused, agentapi.FailureLiveRefused:
		return true
	}
	return false
}

// RefusalNote returns a note on the record of a failed install. Empty: there is no record.
func RefusalNote(reason string) string {
	if !refusedByHost(reason) {
		return ""
	}
	return "spec.record.refusedImages has it until the next inspection: if you delete the Machine, its replacement gets another host if one suits"
}

// ChecksumsOf returns the checksums of the claim's image, or of its live system's kernel and
// initrd.
func ChecksumsOf(claim *infrav1.HostClaim) []string {
	return slices.Sorted(maps.Keys(claim.Files()))
}

// RememberRefusal records that the claim's image does not fit the host, if its order ended with
// that result.
func RememberRefusal(host *infrav1.IngotHost) {
	order, claim := host.Spec.Order, host.Spec.Claim
	if order == nil || order.Kind != infrav1.OrderInstall || order.Result == nil || claim == nil ||
		order.Result.Outcome != infrav1.OrderFailed || !refusedByHost(order.Result.Reason) {
		return
	}
	refused := infrav1.RefusedImage{Checksums: ChecksumsOf(claim), Disks: disksAsked(claim), Reason: order.Result.Reason}
	if len(refused.Checksums) == 0 {
		return
	}
	ForgetRefusal(host)
	if host.Spec.Record == nil {
		host.Spec.Record = &infrav1.HostRecord{}
	}
	all := append(host.Spec.Record.RefusedImages, refused)
	host.Spec.Record.RefusedImages = all[max(0, len(all)-maxRefusedImages):]
}

// ForgetRefusal removes the record about the claim's image.
func ForgetRefusal(host *infrav1.IngotHost) {
	record, claim := host.Spec.Record, host.Spec.Claim
	if record == nil || claim == nil {
		return
	}
	checksums, disks := ChecksumsOf(claim), agentRefs(disksAsked(claim))
	record.RefusedImages = slices.DeleteFunc(slices.Clone(record.RefusedImages), func(r infrav1.RefusedImage) bool {
		return isAbout(r, checksums, disks)
	})
}

// RefusedImageRank returns 1 for a host that is selected only if no other suits: the image with these
// checksums did not fit the chosen disks.
func RefusedImageRank(host *infrav1.IngotHost, checksums []string, chosen []infrav1.HardwareDisk) int {
	if host.Spec.Record == nil {
		return 0
	}
	var disks []agentapi.DiskRef
	for _, disk := range chosen {
		disks = append(disks, inventory.AgentDiskRef(inventory.DiskRefOf(disk)))
	}
	if slices.ContainsFunc(host.Spec.Record.RefusedImages, func(r infrav1.RefusedImage) bool { return isAbout(r, checksums, disks) }) {
		return 1
	}
	return 0
}

// isAbout reports whether the record is about the checksums and disks. Disks that cannot form a
// mirror cannot do so for any image.
func isAbout(r infrav1.RefusedImage, checksums []string, disks []agentapi.DiskRef) bool {
	return (r.Reason == agentapi.FailureMirrorRefused || slices.Equal(r.Checksums, checksums)) &&
		(len(r.Disks) == 0 || slices.Equal(agentRefs(r.Disks), disks))
}

// disksAsked returns the disks for the claim's image. A live system uses none.
func disksAsked(claim *infrav1.HostClaim) []infrav1.DiskReference {
	if claim.Live != nil || claim.RootDisk == nil {
		return nil
	}
	return append([]infrav1.DiskReference{*claim.RootDisk}, claim.MirrorDisks...)
}

func agentRefs(refs []infrav1.DiskReference) []agentapi.DiskRef {
	var out []agentapi.DiskRef
	for _, ref := range refs {
		out = append(out, inventory.AgentDiskRef(ref))
	}
	return out
}
