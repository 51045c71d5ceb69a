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

func mirrored(members ...infrav1.RootDeviceHints) func(*infrav1.IngotHost) {
	return func(h *infrav1.IngotHost) {
		h.Spec.Claim.SoftwareRAID = &infrav1.SoftwareRAID{Level: infrav1.SoftwareRAIDLevel1, Members: members}
	}
}

// Both disks are recorded before either is written (I12), and ordered. A report that lacks one commits
// nothing.
func TestInstallMirror(t *testing.T) {
	second := agentapi.DiskRef{Serial: "d2", SizeBytes: 200e9}
	for _, c := range []struct {
		name     string
		reported []agentapi.DiskRef
		commits  bool
	}{
		{"both disks", []agentapi.DiskRef{second}, true},
		{"an agent that knows no mirrors", nil, false},
		{"another disk", []agentapi.DiskRef{{Serial: "d3"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, append(world(mirrored()), recorded(here))...)
			a := s.agent(claimsOf(token.Install), here)
			opened(s, a)
			want := []infrav1.DiskReference{{SerialNumber: "d2", SizeBytes: ptr.To[int64](200e9)}}
			if claim := s.host().Spec.Claim; claim.RootDisk.SerialNumber != "d1" || !cmp.Equal(want, claim.MirrorDisks) {
				t.Errorf("recorded before the install: %v and %v", claim.RootDisk, claim.MirrorDisks)
			}
			order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
			if reason != "" || !cmp.Equal([]agentapi.DiskRef{second}, order.Install.MirrorDisks) || order.Install.RootDisk.Serial != "d1" {
				t.Fatalf("refusal %q, order %+v", reason, order.Install)
			}
			ack, reason := call[agentapi.Acknowledgement](a, agentapi.PathReport,
				agentapi.Report{OrderID: orderID, Outcome: agentapi.Succeeded, RootDisk: &order.Install.RootDisk, MirrorDisks: c.reported})
			host := s.host()
			switch {
			case reason != "":
				t.Errorf("report refused: %s", reason)
			case c.commits && (ack.Action != agentapi.BootDisk || host.Spec.Claim.State != infrav1.ClaimProvisioned):
				t.Errorf("%s, %+v", ack.Action, host.Spec.Claim)
			case !c.commits && (ack.Action != agentapi.PowerOff || host.Spec.Claim.State != infrav1.ClaimProvisioning || host.Spec.Order.Result == nil ||
				host.Spec.Order.Result.Outcome != infrav1.OrderFailed || !strings.Contains(host.Spec.Order.Result.Message, "serial number d2")):
				t.Errorf("%s, %+v", ack.Action, host.Spec.Order)
			}
			// The disk is complete, and the next attempt must not adopt it (I21).
			if rejected := host.Spec.Claim.RejectedAttempts; c.commits != (len(rejected) == 0) || !c.commits && rejected[0] != host.Spec.Claim.Attempt {
				t.Errorf("rejected attempts %v", rejected)
			}
		})
	}
}

// The disks of an earlier attempt do not count if the facts have changed.
func TestMirrorIsChosenAnew(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*infrav1.IngotHost)
		root   string
		mirror int
		says   string
	}{
		{"by the members' hints", mirrored(infrav1.RootDeviceHints{SerialNumber: "d2"}, infrav1.RootDeviceHints{SerialNumber: "d1"}), "d2", 1, ""},
		{"no mirror any more", func(h *infrav1.IngotHost) {
			h.Spec.Claim.MirrorDisks = []infrav1.DiskReference{{SerialNumber: "d9"}}
		}, "d1", 0, ""},
		{"a disk that is not there", mirrored(infrav1.RootDeviceHints{SerialNumber: "d1"}, infrav1.RootDeviceHints{SerialNumber: "d9"}), "", 0,
			"Correct softwareRAID.members of the IngotMachine's template."},
		{"one disk that suits", func(h *infrav1.IngotHost) {
			mirrored()(h)
			h.Spec.Claim.RootDeviceHints = &infrav1.RootDeviceHints{SerialNumber: "d9"}
		}, "", 0, "both disks of softwareRAID must match them."},
		{"one disk, which is not there", func(h *infrav1.IngotHost) {
			h.Spec.Claim.RootDeviceHints = &infrav1.RootDeviceHints{SerialNumber: "d9"}
		}, "", 0, "Correct rootDeviceHints of the IngotMachine's template or of the IngotHost."},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, append(world(c.change), recorded(here))...)
			reason := s.agent(claimsOf(token.Install), here).open()
			host := s.host()
			if c.root == "" {
				if result := host.Spec.Order.Result; reason != agentapi.ReasonHardwareMismatch || result.Reason != infrav1.ReasonNoRootDisk || !strings.Contains(result.Message, "serialNumber d9") ||
					!strings.HasSuffix(result.Message, c.says) {
					t.Errorf("%q, %+v", reason, host.Spec.Order.Result)
				}
				return
			}
			if reason != "" || host.Spec.Claim.RootDisk.SerialNumber != c.root || len(host.Spec.Claim.MirrorDisks) != c.mirror {
				t.Errorf("%q, %+v", reason, host.Spec.Claim)
			}
		})
	}
}

// What is ordered of a mirror's disks is what the record will say was due.
func TestMirrorIsWiped(t *testing.T) {
	host := &infrav1.IngotHost{}
	host.Spec.Claim = &infrav1.HostClaim{Cleaning: infrav1.CleaningNone, MirrorDisks: []infrav1.DiskReference{{SerialNumber: "d2"}}}
	if got := cleaningOf(host); got != infrav1.CleaningMetadata {
		t.Errorf("%s, want Metadata", got)
	}
}
