// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
)

// What the host does not take is in its record with the report that says so, and people are
// told; an install that succeeds after all takes it away.
func TestRefusedImageIsRemembered(t *testing.T) {
	for _, c := range []struct {
		name   string
		report agentapi.Report
		kept   bool
	}{
		{"too large for the disk", agentapi.Report{Outcome: agentapi.Failed, Reason: agentapi.FailureDiskTooSmall, Message: "40 GB of image"}, true},
		{"bad everywhere", agentapi.Report{Outcome: agentapi.Failed, Reason: agentapi.FailureImageInvalid, Message: "no image"}, false},
		{"taken", agentapi.Report{Outcome: agentapi.Succeeded}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, world()...)
			a := s.agent(claimsOf(token.Install), here)
			opened(s, a)
			claim := s.host().Spec.Claim
			entry := infrav1.RefusedImage{Checksums: []string{claim.Image.Checksum}, Disks: []infrav1.DiskReference{*claim.RootDisk}, Reason: agentapi.FailureDiskTooSmall}
			if c.report.Outcome == agentapi.Succeeded { // it was not, the time before
				s.change(func(h *infrav1.IngotHost) {
					h.Spec.Record = &infrav1.HostRecord{RefusedImages: []infrav1.RefusedImage{entry}}
				})
			}
			c.report.OrderID = orderID
			if _, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport, c.report); reason != "" {
				t.Fatalf("refusal %q", reason)
			}
			var want, got []infrav1.RefusedImage
			if c.kept {
				want = append(want, entry)
			}
			if record := s.host().Spec.Record; record != nil {
				got = record.RefusedImages
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("remembered (-want +got):\n%s", diff)
			}
			s.eventWith(infrav1.ReasonInstallFailed)
			if told := strings.Contains(strings.Join(s.seen, "\n"), "spec.record.refusedImages"); told != c.kept {
				t.Errorf("events: %q", s.seen)
			}
		})
	}
}
