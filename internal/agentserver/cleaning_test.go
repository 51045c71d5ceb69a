// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// Each disk is cleaned in its own mode, and the result is recorded.
func TestCleaningOfSingleDisks(t *testing.T) {
	wiping := func(h *infrav1.IngotHost) {
		h.Spec.Claim.State, h.Spec.Order.Kind, h.Spec.Claim.Cleaning = infrav1.ClaimReleasing, infrav1.OrderClean, infrav1.CleaningFull
		h.Spec.DiskCleaning = []infrav1.DiskCleaning{{Hints: infrav1.RootDeviceHints{SerialNumber: "d2"}, Mode: infrav1.CleaningMetadata}}
	}
	s := newSite(t, world(wiping)...)
	a := s.agent(claimsOf(token.Clean), here)
	opened(s, a)
	order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
	if diff := cmp.Diff([]string{"Full", "Metadata"}, order.Clean.Modes); diff != "" || reason != "" || order.Clean.Mode != "Full" {
		t.Errorf("mode %s, refusal %q: %s", order.Clean.Mode, reason, diff)
	}
	report := agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded, CleanedDisks: order.Clean.Disks, Cleaned: []agentapi.CleanedDisk{
		{Disk: order.Clean.Disks[0], Mode: "Full", Method: "NVMeSanitizeBlock", ErasedBytes: 100e9, VerifiedBytes: 4 << 20},
	}}
	if _, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, report); reason != "" {
		t.Fatalf("refusal %q", reason)
	}
	want := []infrav1.CleanedDisk{{
		Disk: infrav1.DiskReference{SerialNumber: "d1", SizeBytes: ptr.To(int64(100e9))}, Mode: infrav1.CleaningFull, Method: "NVMeSanitizeBlock",
		ErasedBytes: ptr.To(int64(100e9)), VerifiedBytes: ptr.To(int64(4 << 20)),
	}}
	if diff := cmp.Diff(want, s.host().Spec.Order.Result.CleanedDisks); diff != "" {
		t.Error(diff)
	}
}

// A success counts only for the disks that the report names: an older agent does not support modes per
// disk. It rejects an unknown mode, so that it gets the strictest one.
func TestReportOfACleaningIsCompared(t *testing.T) {
	wiping := func(h *infrav1.IngotHost) {
		h.Spec.Claim.State, h.Spec.Order.Kind, h.Spec.Claim.Cleaning = infrav1.ClaimReleasing, infrav1.OrderClean, infrav1.CleaningMetadata
		h.Spec.DiskCleaning = []infrav1.DiskCleaning{{Hints: infrav1.RootDeviceHints{SerialNumber: "d2"}, Mode: infrav1.CleaningFull}}
	}
	d1, d2 := agentapi.DiskRef{Serial: "d1", SizeBytes: 100e9}, agentapi.DiskRef{Serial: "d2", SizeBytes: 200e9}
	metadata := func(d agentapi.DiskRef) agentapi.CleanedDisk {
		return agentapi.CleanedDisk{Disk: d, Mode: "Metadata", Method: "Metadata"}
	}
	erased := agentapi.CleanedDisk{Disk: d2, Mode: "Full", Method: "Overwrite"}
	for _, c := range []struct {
		name    string
		cleaned []agentapi.CleanedDisk
		left    string
	}{
		{"as ordered", []agentapi.CleanedDisk{metadata(d1), erased}, ""},
		{"of before there were modes", []agentapi.CleanedDisk{metadata(d1), metadata(d2)}, "serial number d2"},
		{"of before methods were named", nil, "serial number d2"},
		{"erased by no method that erases", []agentapi.CleanedDisk{metadata(d1), {Disk: d2, Mode: "Full", Method: "Metadata"}}, "serial number d2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, world(wiping)...)
			a := s.agent(claimsOf(token.Clean), here)
			opened(s, a)
			if order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{}); reason != "" || order.Clean.Mode != "Full" {
				t.Fatalf("refusal %q, order %+v", reason, order.Clean)
			}
			report := agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded, CleanedDisks: []agentapi.DiskRef{d1, d2}, Cleaned: c.cleaned}
			if ack, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, report); reason != "" || ack.Action != agentapi.PowerOff {
				t.Fatalf("refusal %q, %+v", reason, ack)
			}
			result := s.host().Spec.Order.Result
			if c.left == "" {
				if result.Outcome != infrav1.OrderSucceeded {
					t.Errorf("result %+v", result)
				}
				return
			}
			if result.Outcome != infrav1.OrderFailed || result.Reason != "CleanFailed" || !strings.Contains(result.Message, c.left) || strings.Contains(result.Message, "d1") {
				t.Errorf("result %+v", result)
			}
			if !s.eventWith("CleanFailed") || s.eventWith("Cleaned") {
				t.Errorf("events: %q", s.seen)
			}
		})
	}
}

// Two disks with one serial number, or two paths to one disk, are each named by a reference
// that fits no other, and what is reported of them is what was ordered.
func TestCleaningOfTwins(t *testing.T) {
	s := newSite(t, world(func(h *infrav1.IngotHost) {
		h.Spec.Claim.State, h.Spec.Order.Kind, h.Spec.Claim.Cleaning = infrav1.ClaimReleasing, infrav1.OrderClean, infrav1.CleaningFull
	})...)
	a := s.agent(claimsOf(token.Clean), here)
	hardware := found()
	twin := agentapi.Disk{Serial: "t", WWN: "0x5", SizeBytes: 300e9}
	for _, path := range []string{"p1", "p2"} {
		twin.Name, twin.Path = "/dev/"+path, path
		hardware.Disks = append(hardware.Disks, twin)
	}
	if _, reason := call[agentapi.Session](a, agentapi.PathSession, agentapi.SessionRequest{BootID: "b", Version: "v", Hardware: hardware}); reason != "" {
		t.Fatal(reason)
	}
	order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
	if reason != "" || len(order.Clean.Disks) != len(hardware.Disks) {
		t.Fatalf("refusal %q, order %+v", reason, order.Clean)
	}
	report := agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded, CleanedDisks: order.Clean.Disks}
	for _, ref := range order.Clean.Disks {
		var named []string
		for _, disk := range hardware.Disks {
			if ref.Matches(disk) {
				named = append(named, disk.Name)
			}
		}
		if len(named) != 1 {
			t.Errorf("%+v names %v", ref, named)
		}
		report.Cleaned = append(report.Cleaned, agentapi.CleanedDisk{Disk: ref, Mode: "Full", Method: "Overwrite"})
	}
	if _, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, report); reason != "" {
		t.Fatal(reason)
	}
	if result := s.host().Spec.Order.Result; result.Outcome != infrav1.OrderSucceeded || len(result.CleanedDisks) != 4 {
		t.Errorf("%+v", result)
	}
}
