// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// failedWith is a host whose install of an image on the disks has failed.
func failedWith(reason, checksum string, disks ...string) *infrav1.IngotHost {
	host := &infrav1.IngotHost{}
	host.Spec.Claim = &infrav1.HostClaim{Image: infrav1.Image{Checksum: checksum}}
	for i, serial := range disks {
		ref := infrav1.DiskReference{SerialNumber: serial, SizeBytes: new(int64(32 * inventory.BytesPerGB))}
		if i == 0 {
			host.Spec.Claim.RootDisk = &ref
			continue
		}
		host.Spec.Claim.MirrorDisks = append(host.Spec.Claim.MirrorDisks, ref)
	}
	host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInstall, Result: &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: reason}}
	return host
}

// disksOf are the disks of failedWith, as they are found.
func disksOf(serials ...string) []infrav1.HardwareDisk {
	var disks []infrav1.HardwareDisk
	for _, serial := range serials {
		disks = append(disks, infrav1.HardwareDisk{Name: "/dev/" + serial, SerialNumber: serial, SizeBytes: new(int64(32 * inventory.BytesPerGB))})
	}
	return disks
}

// The record has the refused image for the disks of the install, and nothing else.
func TestRememberRefusal(t *testing.T) {
	live := failedWith(agentapi.FailureLiveRefused, "", "a")
	live.Spec.Claim.Live = &infrav1.LiveSystem{Kernel: infrav1.LiveFile{Checksum: "kernel"}, Initrd: infrav1.LiveFile{Checksum: "initrd"}}
	wipe := failedWith(agentapi.FailureDiskTooSmall, "x", "a")
	wipe.Spec.Order.Kind = infrav1.OrderClean
	done := failedWith(agentapi.FailureDiskTooSmall, "x", "a")
	done.Spec.Order.Result.Outcome = infrav1.OrderSucceeded
	image := []string{"x"}
	larger := disksOf("a")
	larger[0].SizeBytes = new(int64(64 * inventory.BytesPerGB))
	for _, tc := range []struct {
		name      string
		host      *infrav1.IngotHost
		checksums []string
		disks     []infrav1.HardwareDisk
		want      int
	}{
		{"too large for its disk", failedWith(agentapi.FailureDiskTooSmall, "x", "a"), image, disksOf("a"), 1},
		{"for other sectors", failedWith(agentapi.FailureSectorsDiffer, "x", "a"), image, disksOf("a"), 1},
		{"next to an old system", failedWith(agentapi.FailureOldSystem, "x", "a"), image, disksOf("a"), 1},
		{"another image", failedWith(agentapi.FailureDiskTooSmall, "x", "a"), []string{"y"}, disksOf("a"), 0},
		{"another disk", failedWith(agentapi.FailureDiskTooSmall, "x", "a"), image, disksOf("b"), 0},
		{"a disk of another size in its place", failedWith(agentapi.FailureDiskTooSmall, "x", "a"), image, larger, 0},
		{"no mirror", failedWith(agentapi.FailureMirrorRefused, "x", "a", "b"), image, disksOf("a", "b"), 1},
		{"no mirror for another image either", failedWith(agentapi.FailureMirrorRefused, "x", "a", "b"), []string{"y"}, disksOf("a", "b"), 1},
		{"one disk of what is no mirror", failedWith(agentapi.FailureMirrorRefused, "x", "a", "b"), image, disksOf("a"), 0},
		{"a live system, on whatever disk", live, []string{"initrd", "kernel"}, disksOf("b"), 1},
		{"another live system", live, []string{"initrd", "signed"}, disksOf("a"), 0},
		{"an image that is bad everywhere", failedWith(agentapi.FailureImageInvalid, "x", "a"), image, disksOf("a"), 0},
		{"a host that is bad", failedWith("DiskFailed", "x", "a"), image, disksOf("a"), 0},
		{"no install", wipe, image, disksOf("a"), 0},
		{"no failure", done, image, disksOf("a"), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if RefusedImageRank(tc.host, tc.checksums, tc.disks) != 0 {
				t.Error("known before")
			}
			RememberRefusal(tc.host)
			if got := RefusedImageRank(tc.host, tc.checksums, tc.disks); got != tc.want {
				t.Errorf("%d, want %d: %+v", got, tc.want, tc.host.Spec.Record)
			}
			ForgetRefusal(tc.host) // it has taken it after all
			if tc.host.Spec.Record != nil && len(tc.host.Spec.Record.RefusedImages) > 0 {
				t.Errorf("%+v is left", tc.host.Spec.Record.RefusedImages)
			}
		})
	}
}

// A refusal is recorded once, and only the last ones are kept.
func TestRefusalsAreBounded(t *testing.T) {
	host := &infrav1.IngotHost{}
	for i := range 3 * maxRefusedImages {
		next := failedWith(agentapi.FailureDiskTooSmall, fmt.Sprint(i), "a")
		host.Spec.Claim, host.Spec.Order = next.Spec.Claim, next.Spec.Order
		RememberRefusal(host)
		RememberRefusal(host) // as it is at each try
	}
	var got, want []string
	for i, r := range host.Spec.Record.RefusedImages {
		got, want = append(got, r.Checksums...), append(want, fmt.Sprint(2*maxRefusedImages+i))
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) != maxRefusedImages {
		t.Errorf("%d are remembered (-want +got):\n%s", len(got), diff)
	}
}

// The record survives claim and cleaning, and ends with an inspection.
func TestRefusalsEndWithInspection(t *testing.T) {
	host := failedWith(agentapi.FailureDiskTooSmall, "x", "a")
	RememberRefusal(host)
	host.Spec.Claim.InstanceID, host.Spec.Claim.Attempt, host.Spec.Claim.Cleaning = "i", 1, infrav1.CleaningMetadata
	ended := func(how func(*input) Decision, kind infrav1.OrderKind) int {
		order := &infrav1.HostOrder{Kind: kind, Result: &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.Time{Time: day()}}}
		host.Spec.Order = order
		save, ok := how(&input{host: host, claim: host.Spec.Claim, record: host.Spec.Record, order: order}).Step.(SaveLedger)
		if !ok {
			t.Fatal("nothing is saved")
		}
		save.Ledger.Apply(host)
		return RefusedImageRank(host, []string{"x"}, disksOf("a"))
	}
	got := []int{ended(concludeWipe, infrav1.OrderClean), ended(concludeInspection, infrav1.OrderInspect)}
	if diff := cmp.Diff([]int{1, 0}, got); diff != "" {
		t.Errorf("after the cleaning, and after the inspection (-want +got):\n%s", diff)
	}
}

// checkRefusals: what a host does not take is forgotten with an inspection alone.
func (w *world) checkRefusals(before, next Ledger) {
	if before.Record == nil || len(before.Record.RefusedImages) == 0 || next.Record != nil && len(next.Record.RefusedImages) > 0 {
		return
	}
	if order := before.Order; order == nil || order.Kind != infrav1.OrderInspect || order.Result == nil {
		w.violate("what the host was found not to take is forgotten")
	}
}
