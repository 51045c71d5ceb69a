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

// This file is what a host is known not to take. The host is good, and so is the image, but
// the two do not go together; without a memory of that the choice, which goes by what fits
// best, would fall on the same host for ever.

// maxRefusedImages is the schema's bound.
const maxRefusedImages = 8

// refusedByHost says whether an install that failed with the reason would do so again on
// this host, and may well succeed on another.
func refusedByHost(reason string) bool {
	switch reason {
	case agentapi.FailureDiskTooSmall, agentapi.FailureSectorsDiffer, agentapi.FailureOldSystem, agentapi.FailureMirrorRefused, agentapi.FailureLiveRefused:
		return true
	}
	return false
}

// RefusalNote tells people of a failed install what is remembered of it; empty: nothing.
func RefusalNote(reason string) string {
	if !refusedByHost(reason) {
		return ""
	}
	return "it is remembered in spec.record.refusedImages until the next inspection: once the Machine is deleted, the one in its place gets another host if any that suits is free"
}

// ChecksumsOf are those of what a claim provisions: of the image, or of the live system's
// kernel and initrd.
func ChecksumsOf(claim *infrav1.HostClaim) []string {
	return slices.Sorted(maps.Keys(claim.Files()))
}

// RememberRefusal writes down that the host does not take what its claim provisions, where
// the order has ended with that.
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

// ForgetRefusal drops what is remembered of what the claim provisions: the host has taken it
// after all, or it is about to be remembered anew.
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

// Refuses is 1 for a host to be taken only when there is no other: it is known not to take
// what has these checksums on the disks that would be chosen.
func Refuses(host *infrav1.IngotHost, checksums []string, chosen []infrav1.HardwareDisk) int {
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

// isAbout: disks that make no mirror make none for any image.
func isAbout(r infrav1.RefusedImage, checksums []string, disks []agentapi.DiskRef) bool {
	return (r.Reason == agentapi.FailureMirrorRefused || slices.Equal(r.Checksums, checksums)) &&
		(len(r.Disks) == 0 || slices.Equal(agentRefs(r.Disks), disks))
}

// disksAsked are those that an image was to be installed on. A live system asks the kernel
// and the memory.
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
