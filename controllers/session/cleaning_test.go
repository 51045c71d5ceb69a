// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/token"
)

// Each disk is cleaned as its entry says, and what was done to it is in the ledger.
func TestCleaningOfSingleDisks(t *testing.T) {
	wiping := func(h *infrav1.IngotHost) {
		h.Spec.Claim.State, h.Spec.Order.Kind, h.Spec.Claim.Cleaning = infrav1.ClaimReleasing, infrav1.OrderWipe, infrav1.CleaningFull
		h.Spec.DiskCleaning = []infrav1.DiskCleaning{{Hints: infrav1.RootDeviceHints{SerialNumber: "d2"}, Mode: infrav1.CleaningMetadata}}
	}
	s := newSite(t, world(wiping)...)
	a := s.agent(claimsOf(token.Wipe), here)
	opened(s, a)
	order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
	if diff := cmp.Diff([]string{"Full", "Metadata"}, order.Wipe.Modes); diff != "" || reason != "" || order.Wipe.Mode != "Full" {
		t.Errorf("mode %s, refusal %q: %s", order.Wipe.Mode, reason, diff)
	}
	report := agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded, Cleaned: []agentapi.CleanedDisk{
		{Disk: agentapi.DiskRef{Serial: "d1"}, Mode: "Full", Method: "NVMeSanitizeBlock", ErasedBytes: 100e9, VerifiedBytes: 4 << 20},
	}}
	if _, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, report); reason != "" {
		t.Fatalf("refusal %q", reason)
	}
	want := []infrav1.CleanedDisk{{
		Disk: infrav1.DiskReference{SerialNumber: "d1"}, Mode: infrav1.CleaningFull, Method: "NVMeSanitizeBlock",
		ErasedBytes: ptr.To(int64(100e9)), VerifiedBytes: ptr.To(int64(4 << 20)),
	}}
	if diff := cmp.Diff(want, s.host().Spec.Order.Result.CleanedDisks); diff != "" {
		t.Error(diff)
	}
}
