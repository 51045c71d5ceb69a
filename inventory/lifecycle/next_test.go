// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// day is the clock of the tables.
func day() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

const newID = "11111111-1111-4111-8111-111111111111"

// scene is a host and what is seen of it; the tables change one.
type scene struct {
	host *infrav1.IngotHost
	obs  Observation
}

func claimOf(state infrav1.ClaimState) *infrav1.HostClaim {
	return &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m1"}, ClusterName: "c1", InstanceID: "i",
		Attempt: 1, State: state, Cleaning: infrav1.CleaningMetadata}
}

func orderOf(kind infrav1.OrderKind) *infrav1.HostOrder {
	return &infrav1.HostOrder{Kind: kind, ID: "o", Attempt: 1, CreationTime: metav1.Time{Time: day().Add(-time.Hour)}}
}

// newScene is an inspected host that is free, off and well.
func newScene(change func(*scene)) scene {
	w := newWorld(nil)
	w.host.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Time{Time: day().Add(-24 * time.Hour)}}
	s := scene{host: w.host, obs: Observation{Now: day(), NewID: newID, Power: infrav1.PowerStateOff, AddressRecorded: true, Machine: MachineExists}}
	change(&s)
	return s
}

// moved makes the host one whose order stems from before a move, and whose agent
// had taken it.
func moved(s *scene, kind infrav1.OrderKind) {
	s.host.Spec.Order = orderOf(kind)
	s.host.Spec.Order.HostUID, s.host.Spec.Order.AgentKey = "object-of-old", "key"
	s.host.Spec.Claim = fencedClaim()
}

// misplaced makes the host one that was booted for its order on another network than its
// spec names.
func misplaced(s *scene, kind infrav1.OrderKind) {
	s.host.Spec.Order = orderOf(kind)
	s.host.Spec.Order.NetworkName, s.host.Spec.Order.BootMACAddress = "elsewhere", s.host.Spec.BootMACAddress
}

// mintedInspect is the order that newScene's host is given to be inspected.
func mintedInspect() *infrav1.HostOrder {
	return &infrav1.HostOrder{Kind: infrav1.OrderInspect, ID: newID, Attempt: 1, CreationTime: metav1.Time{Time: day()}, HostUID: "object-0",
		NetworkName: "net", BootMACAddress: "52:54:00:00:00:01"}
}

func fencedClaim() *infrav1.HostClaim {
	claim := claimOf(infrav1.ClaimReleasing)
	claim.FencedTime = metav1.Time{Time: day()}
	return claim
}

// notCleaned makes the host one that was released, and whose cleaning failed for good.
func notCleaned(s *scene) {
	s.host.Spec.Record.CleaningDue = infrav1.CleaningMetadata
	s.host.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineCleanFailed, Message: "wipe failed 3 times", StartTime: metav1.Time{Time: day()}}
}

func inspectedRecord() *infrav1.HostRecord {
	return &infrav1.HostRecord{InspectedTime: metav1.Time{Time: day().Add(-24 * time.Hour)}}
}

func TestNext(t *testing.T) {
	policy := DefaultPolicy()
	note := func(s *scene, name string, arguments ...string) {
		s.host.Annotations = map[string]string{name: givenAt(day(), arguments...)}
	}
	for _, tc := range []struct {
		name   string
		change func(*scene)
		rule   string
		step   any // a Step, or for SaveLedger a Ledger
		reason string
	}{
		{"free and well", func(s *scene) {}, "start/available", Idle{}, infrav1.ReasonAvailable},
		{"no BMC", func(s *scene) { s.host.Spec.BMC = nil }, "unmanaged", Idle{}, infrav1.ReasonUnmanaged},
		{"the same server twice", func(s *scene) { s.obs.DuplicateOf = "IngotHost ns/b" }, "duplicate", Idle{}, infrav1.ReasonDuplicate},
		{"password refused", func(s *scene) { s.obs.BMC = BMCUnauthorized; s.obs.RetryAt = day().Add(time.Minute) }, "bmc",
			Wait{Until: day().Add(time.Minute)}, infrav1.ReasonCredentialsRejected},
		{"power unknown", func(s *scene) { s.obs.Power = "" }, "power-unknown", Wait{Until: day().Add(policy.ResetInterval)}, infrav1.ReasonBMCError},
		{"unknown client is on", func(s *scene) { s.obs.Power = infrav1.PowerStateOn; s.host.Spec.Record = nil }, "free/unexpectedly-on", Idle{}, infrav1.ReasonPoweredOnUnexpectedly},
		{"unknown client is on, approved", func(s *scene) {
			s.obs.Power = infrav1.PowerStateOn
			note(s, infrav1.ApproveAnnotation)
		}, "free/approved-off-ask", PowerOff{Graceful: true}, infrav1.ReasonInProgress},
		{"never inspected", func(s *scene) { s.host.Spec.Record = nil }, "start/order", Ledger{Order: &infrav1.HostOrder{
			Kind: infrav1.OrderInspect, ID: newID, Attempt: 1, CreationTime: metav1.Time{Time: day()}, HostUID: "object-0", NetworkName: "net", BootMACAddress: "52:54:00:00:00:01"}}, infrav1.ReasonInspecting},
		{"no address yet", func(s *scene) { s.obs.AddressRecorded = false }, "start/address", RecordAddress{}, infrav1.ReasonInProgress},
		{"order written, host off", func(s *scene) { s.host.Spec.Order = orderOf(infrav1.OrderInspect) }, "start/boot", BootAgent{}, infrav1.ReasonInspecting},
		{"order written, switched a moment ago", func(s *scene) {
			s.host.Spec.Order = orderOf(infrav1.OrderInspect)
			s.obs.LastReset = day().Add(-time.Second)
		}, "order/doubted", Wait{Until: day().Add(29 * time.Second)}, infrav1.ReasonWaiting},
		{"agent at work", func(s *scene) {
			s.host.Spec.Order = orderOf(infrav1.OrderInspect)
			s.obs.Power, s.obs.LastContact = infrav1.PowerStateOn, day().Add(-time.Minute)
		}, "order/running", Wait{Until: day().Add(14 * time.Minute)}, infrav1.ReasonInspecting},
		{"agent at work, status lost", func(s *scene) {
			s.host.Spec.Order = orderOf(infrav1.OrderInspect)
			s.obs.Power = infrav1.PowerStateOn
		}, "order/forgotten", Wait{Until: day().Add(15 * time.Minute)}, infrav1.ReasonInspecting},
		{"cleaning begun by another management cluster, its agent still on", func(s *scene) {
			moved(s, infrav1.OrderClean)
			s.obs.Power = infrav1.PowerStateOn
		}, "order/misfit-off", PowerOff{}, infrav1.ReasonInProgress},
		{"inspection that a person asked for in another management cluster, off", func(s *scene) {
			moved(s, infrav1.OrderInspect)
			s.host.Spec.Claim = nil
		}, "order/misfit-drop", Ledger{Record: inspectedRecord(), Order: &infrav1.HostOrder{
			Kind: infrav1.OrderInspect, ID: newID, Attempt: 1, CreationTime: metav1.Time{Time: day()}, HostUID: "object-0", NetworkName: "net", BootMACAddress: "52:54:00:00:00:01"}}, infrav1.ReasonInProgress},
		{"the same in maintenance", func(s *scene) {
			moved(s, infrav1.OrderInspect)
			s.host.Spec.Claim, s.host.Spec.Maintenance = nil, new(true)
		}, "order/misfit-drop", Ledger{Record: inspectedRecord()}, infrav1.ReasonInProgress},
		{"released in maintenance: fenced", func(s *scene) {
			s.host.Spec.Claim, s.host.Spec.Maintenance = claimOf(infrav1.ClaimReleasing), new(true)
			s.obs.Power = infrav1.PowerStateOn
		}, "releasing/off-ask", PowerOff{Graceful: true}, infrav1.ReasonFencing},
		{"released in maintenance, fenced: not booted to be cleaned", func(s *scene) {
			s.host.Spec.Claim, s.host.Spec.Maintenance = fencedClaim(), new(true)
		}, "maintenance", Idle{}, infrav1.ReasonMaintenance},
		{"the same, the order was there", func(s *scene) {
			s.host.Spec.Claim, s.host.Spec.Maintenance, s.host.Spec.Order = fencedClaim(), new(true), orderOf(infrav1.OrderClean)
		}, "maintenance", Idle{}, infrav1.ReasonMaintenance},
		{"in maintenance, on by hand: its order was never booted", func(s *scene) {
			s.host.Spec.Maintenance, s.host.Spec.Order = new(true), orderOf(infrav1.OrderClean)
			s.obs.Power, s.obs.LastReset, s.obs.LastContact = infrav1.PowerStateOn, day().Add(-2*time.Hour), day().Add(-20*time.Minute)
		}, "order/left", Idle{}, infrav1.ReasonMaintenance},
		{"in maintenance, on by hand: its boot came to nothing", func(s *scene) {
			s.host.Spec.Maintenance, s.host.Spec.Order = new(true), orderOf(infrav1.OrderClean)
			s.obs.Power, s.obs.LastReset = infrav1.PowerStateOn, day().Add(-20*time.Minute)
		}, "order/left", Idle{}, infrav1.ReasonMaintenance},
		{"in maintenance, and its agent has ended", func(s *scene) {
			s.host.Spec.Maintenance, s.host.Spec.Order = new(true), orderOf(infrav1.OrderClean)
			s.host.Spec.Record.CleaningDue, s.host.Spec.Order.AgentKey = infrav1.CleaningMetadata, "k"
			s.host.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.Time{Time: day().Add(-time.Minute)}}
			s.obs.Power, s.obs.LastReset = infrav1.PowerStateOn, day().Add(-20*time.Minute)
		}, "order/ended-off", PowerOff{}, infrav1.ReasonInProgress},
		{"provisioned and off, wanted on, in maintenance", func(s *scene) {
			s.host.Spec.Claim, s.host.Spec.Maintenance, s.host.Spec.Power = claimOf(infrav1.ClaimProvisioned), new(true), infrav1.PowerIntentOn
		}, "provisioned/idle", Idle{}, infrav1.ReasonProvisioned},
		{"between two tries of an installation, in maintenance", func(s *scene) {
			s.host.Spec.Claim, s.host.Spec.Maintenance, s.host.Spec.Order = claimOf(infrav1.ClaimProvisioning), new(true), orderOf(infrav1.OrderInstall)
		}, "maintenance", Idle{}, infrav1.ReasonMaintenance},
		{"booted on another network, and no agent has spoken", func(s *scene) {
			misplaced(s, infrav1.OrderInspect)
			s.obs.Power, s.obs.LastReset = infrav1.PowerStateOn, day().Add(-time.Minute)
		}, "order/misfit-off", PowerOff{}, infrav1.ReasonInProgress},
		{"the same a moment ago", func(s *scene) {
			misplaced(s, infrav1.OrderInspect)
			s.obs.Power, s.obs.LastReset = infrav1.PowerStateOn, day().Add(-time.Second)
		}, "order/misfit-off-interval", Wait{Until: day().Add(29 * time.Second)}, infrav1.ReasonWaiting},
		{"the same, off", func(s *scene) {
			misplaced(s, infrav1.OrderInspect)
			s.host.Spec.Record = nil
		}, "order/misfit-drop", Ledger{}, infrav1.ReasonInProgress},
		{"the same, off, and a person had asked for it", func(s *scene) { misplaced(s, infrav1.OrderInspect) }, "order/misfit-drop",
			Ledger{Record: inspectedRecord(), Order: mintedInspect()}, infrav1.ReasonInProgress},
		{"the same, claimed since", func(s *scene) {
			misplaced(s, infrav1.OrderInspect)
			s.host.Spec.Claim = fencedClaim()
		}, "order/misfit-drop", Ledger{Claim: fencedClaim(), Record: inspectedRecord()}, infrav1.ReasonInProgress},
		{"cleaning booted on another network, off", func(s *scene) {
			misplaced(s, infrav1.OrderClean)
			s.host.Spec.Claim = fencedClaim()
		}, "order/misfit-drop", Ledger{Claim: fencedClaim(), Record: inspectedRecord()}, infrav1.ReasonInProgress},
		{"booted by another NIC, off", func(s *scene) {
			s.host.Spec.Order, s.host.Spec.Record = mintedInspect(), nil
			s.host.Spec.BootMACAddress = "52:54:00:00:00:02"
		}, "order/misfit-drop", Ledger{}, infrav1.ReasonInProgress},
		{"put on another network while its agent works", func(s *scene) {
			misplaced(s, infrav1.OrderInspect)
			s.host.Spec.Order.AgentKey = "key"
			s.obs.Power, s.obs.LastContact = infrav1.PowerStateOn, day().Add(-time.Minute)
		}, "order/running", Wait{Until: day().Add(14 * time.Minute)}, infrav1.ReasonInspecting},
		{"inspected on another network", func(s *scene) {
			misplaced(s, infrav1.OrderInspect)
			s.host.Spec.Order.AgentKey = "key"
			s.host.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.Time{Time: day()}}
		}, "order/inspected", Ledger{Record: &infrav1.HostRecord{InspectedTime: metav1.Time{Time: day()}}}, infrav1.ReasonInspected},
		{"cleaning begun by another management cluster, off", func(s *scene) { moved(s, infrav1.OrderClean) }, "order/misfit-drop",
			Ledger{Claim: fencedClaim(), Record: inspectedRecord()}, infrav1.ReasonInProgress},
		{"inspection begun by another management cluster, off", func(s *scene) {
			moved(s, infrav1.OrderInspect)
			s.host.Spec.Claim, s.host.Spec.Record = nil, nil
		}, "order/misfit-drop", Ledger{}, infrav1.ReasonInProgress},
		{"cleaning confirmed to another management cluster", func(s *scene) {
			moved(s, infrav1.OrderClean)
			s.host.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.Time{Time: day()}}
		}, "order/wiped", Ledger{Record: &infrav1.HostRecord{
			InspectedTime: metav1.Time{Time: day().Add(-24 * time.Hour)}, SanitizedTime: metav1.Time{Time: day()}}}, infrav1.ReasonCleaned},
		{"provisioned and on", func(s *scene) {
			s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimProvisioned), infrav1.PowerStateOn
		}, "provisioned/idle", Idle{}, infrav1.ReasonProvisioned},
		{"provisioned and off", func(s *scene) { s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioned) }, "provisioned/idle", Idle{}, infrav1.ReasonProvisioned},
		{"provisioned, reboot asked", func(s *scene) {
			s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimProvisioned), infrav1.PowerStateOn
			note(s, infrav1.RebootAnnotation, "Forced")
		}, "provisioned/restart", Restart{}, infrav1.ReasonProvisioned},
		{"machine gone", func(s *scene) {
			s.host.Spec.Claim, s.obs.Machine = claimOf(infrav1.ClaimProvisioned), MachineMissing
		}, "dangling/wait", Idle{}, infrav1.ReasonMachineNotFound},
		{"released and on", func(s *scene) {
			s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimReleasing), infrav1.PowerStateOn
		}, "releasing/off-ask", PowerOff{Graceful: true}, infrav1.ReasonFencing},
		{"released, asked to shut down", func(s *scene) {
			s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimReleasing), infrav1.PowerStateOn
			s.obs.SoftOffAt, s.obs.LastReset = day().Add(-time.Minute), day().Add(-time.Minute)
		}, "releasing/off-pending", Wait{Until: day().Add(policy.ShutdownPoll)}, infrav1.ReasonFencing},
		{"released, the deadline before the next look", func(s *scene) {
			s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimReleasing), infrav1.PowerStateOn
			s.obs.SoftOffAt, s.obs.LastReset = day().Add(-118*time.Second), day().Add(-118*time.Second)
		}, "releasing/off-pending", Wait{Until: day().Add(2 * time.Second)}, infrav1.ReasonFencing},
		{"released, deadline over", func(s *scene) {
			s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimReleasing), infrav1.PowerStateOn
			s.obs.SoftOffAt, s.obs.LastReset = day().Add(-2*time.Minute), day().Add(-2*time.Minute)
		}, "releasing/off-cut", PowerOff{}, infrav1.ReasonFencing},
		{"released, and the BMC refuses to ask", func(s *scene) {
			s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimReleasing), infrav1.PowerStateOn
			s.obs.LastReset = day().Add(-time.Minute)
		}, "releasing/off-ask", PowerOff{Graceful: true}, infrav1.ReasonFencing},
		{"released, and the BMC has refused for long", func(s *scene) {
			s.host.Spec.Claim, s.obs.Power, s.obs.ShutdownRefused = claimOf(infrav1.ClaimReleasing), infrav1.PowerStateOn, true
			s.obs.LastReset = day().Add(-time.Minute)
		}, "releasing/off-cut", PowerOff{}, infrav1.ReasonFencing},
		{"wipe confirmed", func(s *scene) {
			s.host.Spec.Claim = claimOf(infrav1.ClaimReleasing)
			s.host.Spec.Claim.FencedTime = metav1.Time{Time: day()}
			s.host.Spec.Order = orderOf(infrav1.OrderClean)
			s.host.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.Time{Time: day()}}
		}, "order/wiped", Ledger{Record: &infrav1.HostRecord{
			InspectedTime: metav1.Time{Time: day().Add(-24 * time.Hour)}, SanitizedTime: metav1.Time{Time: day()}}}, infrav1.ReasonCleaned},
		{"released without cleaning", func(s *scene) {
			s.host.Spec.Claim = claimOf(infrav1.ClaimReleasing)
			s.host.Spec.Claim.FencedTime, s.host.Spec.Claim.Cleaning = metav1.Time{Time: day()}, infrav1.CleaningNone
		}, "releasing/nothing-to-clean", Ledger{Record: &infrav1.HostRecord{
			InspectedTime: metav1.Time{Time: day().Add(-24 * time.Hour)}, LastClusterName: "c1", LastInstanceID: "i"}}, infrav1.ReasonNotCleaned},
		{"deleted while claimed", func(s *scene) { s.obs.Deleting, s.host.Spec.Claim = true, claimOf(infrav1.ClaimProvisioned) }, "deleting/claimed", Idle{}, infrav1.ReasonDeleting},
		{"deleted, and its cleaning failed", func(s *scene) { s.obs.Deleting = true; notCleaned(s) }, "deleting/quarantined", Idle{}, infrav1.ReasonDeleting},
		{"deleted, its cleaning failed, and a person cleared it", func(s *scene) {
			s.obs.Deleting = true
			notCleaned(s)
			note(s, infrav1.ClearQuarantineAnnotation)
		}, "deleting/forget", RemoveFinalizer{}, infrav1.ReasonDeleting},
		{"deleted, its cleaning failed, and a person forces it", func(s *scene) {
			s.obs.Deleting = true
			notCleaned(s)
			note(s, infrav1.ForceReleaseAnnotation)
		}, "deleting/forced", RemoveFinalizer{}, infrav1.ReasonDeleting},
		{"deleted, and its installs failed", func(s *scene) {
			s.obs.Deleting = true
			notCleaned(s)
			s.host.Spec.Record.CleaningDue = ""
			s.host.Spec.Record.Quarantine.Reason = infrav1.QuarantineInstallFailed
		}, "deleting/quarantined", Idle{}, infrav1.ReasonDeleting},
		{"deleted, and its inspections failed", func(s *scene) {
			s.obs.Deleting = true
			notCleaned(s)
			s.host.Spec.Record.Quarantine.Reason = infrav1.QuarantineInspectFailed
		}, "deleting/forget", RemoveFinalizer{}, infrav1.ReasonDeleting},
		{"deleted, and not fenced", func(s *scene) {
			s.obs.Deleting = true
			notCleaned(s)
			s.host.Spec.Record.Quarantine.Reason = infrav1.QuarantineNotFenced
		}, "deleting/forget", RemoveFinalizer{}, infrav1.ReasonDeleting},
		{"deleted", func(s *scene) { s.obs.Deleting = true }, "deleting/forget", RemoveFinalizer{}, infrav1.ReasonDeleting},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(tc.change)
			before := s.host.DeepCopy()
			got := Next(s.host, s.obs, policy)
			if diff := cmp.Diff(before, s.host); diff != "" {
				t.Errorf("Next changed the host (-before +after):\n%s", diff)
			}
			var step any = got.Step
			if save, ok := got.Step.(SaveLedger); ok {
				step = save.Ledger
			}
			if diff := cmp.Diff([]any{tc.rule, tc.step, tc.reason}, []any{got.Rule, step, got.Reason}); diff != "" {
				t.Errorf("rule, step, reason (-want +got):\n%s\nmessage: %s", diff, got.Message)
			}
			if diff := cmp.Diff(got, Next(s.host, s.obs, policy)); diff != "" {
				t.Errorf("another answer to the same question:\n%s", diff)
			}
		})
	}
}

// One mistyped URL must not quarantine hosts, so Ingot retries the image with growing waits.
func TestImageFailureDoesNotQuarantine(t *testing.T) {
	failed := func(attempt int32, reason string, ago time.Duration) scene {
		return newScene(func(s *scene) {
			s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioning)
			s.host.Spec.Claim.Attempt = attempt
			s.host.Spec.Record.Failures = 2 // one more counted failure would be a quarantine
			s.host.Spec.Order = orderOf(infrav1.OrderInstall)
			s.host.Spec.Order.Attempt, s.host.Spec.Order.AgentKey = attempt, "key"
			s.host.Spec.Order.Result = &infrav1.OrderResult{
				Outcome: infrav1.OrderFailed, Reason: reason, Message: "404 Not Found", CompletionTime: metav1.Time{Time: day().Add(-ago)},
			}
			s.obs.LastReset = day().Add(-ago + time.Second)
		})
	}
	for _, tc := range []struct {
		name  string
		scene scene
		rule  string
		until time.Time
	}{
		{"just now", failed(1, "ImageUnavailable", 10*time.Second), "order/image-wait", day().Add(20 * time.Second)},
		{"after the first wait", failed(1, "ImageUnavailable", 30*time.Second), "order/image-retry", time.Time{}},
		{"the wait doubles", failed(3, "ChecksumMismatch", 30*time.Second), "order/image-wait", day().Add(90 * time.Second)},
		{"up to its bound", failed(400, "ImageInvalid", 30*time.Second), "order/image-wait", day().Add(270 * time.Second)},
		{"a live system that no kernel starts", failed(1, "LiveSystemRefused", 30*time.Second), "order/image-retry", time.Time{}},
		{"a live system that was started and never spoke", failed(1, "LiveSystemUnresponsive", 30*time.Second), "order/image-retry", time.Time{}},
		{"disks that cannot be one mirror, just now", failed(1, "MirrorRefused", 10*time.Second), "order/image-wait", day().Add(20 * time.Second)},
		{"disks that cannot be one mirror", failed(1, "MirrorRefused", 30*time.Second), "order/image-retry", time.Time{}},
		{"an image larger than the disk, just now", failed(1, "DiskTooSmall", 10*time.Second), "order/image-wait", day().Add(20 * time.Second)},
		{"an image larger than the disk", failed(1, "DiskTooSmall", 30*time.Second), "order/image-retry", time.Time{}},
		{"an image for other sectors, just now", failed(1, "SectorsDiffer", 10*time.Second), "order/image-wait", day().Add(20 * time.Second)},
		{"an image for other sectors", failed(1, "SectorsDiffer", 30*time.Second), "order/image-retry", time.Time{}},
		{"the old system on another disk, just now", failed(1, "OldSystemOnDisk", 10*time.Second), "order/image-wait", day().Add(20 * time.Second)},
		{"the old system on another disk", failed(1, "OldSystemOnDisk", 30*time.Second), "order/image-retry", time.Time{}},
		{"a live system that was not started may be the host's fault", failed(1, "LiveSystemFailed", time.Hour), "order/quarantine", time.Time{}},
		{"a transfer that broke may be the host's fault", failed(1, "TransferFailed", time.Hour), "order/quarantine", time.Time{}},
		{"a disk is", failed(1, "DiskFailed", time.Hour), "order/quarantine", time.Time{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Next(tc.scene.host, tc.scene.obs, DefaultPolicy())
			if d.Rule != tc.rule {
				t.Fatalf("rule %s, want %s: %s", d.Rule, tc.rule, d.Message)
			}
			if wait, ok := d.Step.(Wait); ok && !wait.Until.Equal(tc.until) {
				t.Errorf("waits until %s, want %s", wait.Until, tc.until)
			}
			if _, waits := d.Step.(Wait); waits {
				own, known := map[string]string{"MirrorRefused": "chooses two disks of a kind", "DiskTooSmall": "a larger disk", "SectorsDiffer": "equal sectors", "OldSystemOnDisk": "set spec.cleaning to Metadata"}[tc.scene.host.Spec.Order.Result.Reason]
				if !known {
					own = "Correct the image"
				}
				for _, remedy := range []string{"chooses two disks of a kind", "a larger disk", "equal sectors", "set spec.cleaning to Metadata", "Correct the image"} {
					if strings.Contains(d.Message, remedy) != (remedy == own) {
						t.Errorf("the remedy is another's: %s", d.Message)
					}
				}
			}
			if save, ok := d.Step.(SaveLedger); ok && tc.rule == "order/image-retry" {
				if save.Ledger.Record.Failures != 2 || save.Ledger.Order.ID != newID || save.Ledger.Claim.Attempt != 2 {
					t.Errorf("ledger %+v, order %+v", save.Ledger.Record, save.Ledger.Order)
				}
			}
		})
	}
}

// A live system that never fetches its data, or powers off, does not quarantine the host.
func TestSilentLiveSystemDoesNotQuarantine(t *testing.T) {
	for name, tc := range map[string]struct {
		power   infrav1.PowerState
		contact time.Duration // ago
		started bool
		told    infrav1.PowerState // the last time
		rule    string
		reason  string
	}{
		"it may yet ask":             {infrav1.PowerStateOn, 14 * time.Minute, true, infrav1.PowerStateOn, "order/running", ""},
		"silence":                    {infrav1.PowerStateOn, 15 * time.Minute, true, infrav1.PowerStateOn, "order/live-silent", infrav1.ReasonLiveSystemUnresponsive},
		"silence of an agent":        {infrav1.PowerStateOn, 15 * time.Minute, false, infrav1.PowerStateOn, "order/silent", infrav1.ReasonNoAgentContact},
		"it has switched itself off": {infrav1.PowerStateOff, time.Minute, true, infrav1.PowerStateOff, "order/live-stopped", infrav1.ReasonLiveSystemUnresponsive},
		"off for the first time":     {infrav1.PowerStateOff, time.Minute, true, infrav1.PowerStateOn, "order/live-doubted", ""},
		"off, and status is lost":    {infrav1.PowerStateOff, time.Minute, true, "", "order/live-doubted", ""},
		"off a moment after it":      {infrav1.PowerStateOff, time.Second, true, infrav1.PowerStateOn, "order/speaking", ""},
		"off before it":              {infrav1.PowerStateOff, time.Minute, false, infrav1.PowerStateOn, "order/quarantine", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioning)
				s.host.Spec.Record.Failures = 2 // one more counted failure would be a quarantine
				s.host.Spec.Order = orderOf(infrav1.OrderInstall)
				s.host.Spec.Order.AgentKey = "key"
				s.host.Status.Power = tc.told
				s.obs.Power, s.obs.LastContact, s.obs.LastReset = tc.power, day().Add(-tc.contact), day().Add(-time.Hour)
				if tc.started {
					s.host.Spec.Order.LiveStartTime = metav1.Time{Time: day().Add(-tc.contact)}
				}
			})
			d := Next(s.host, s.obs, DefaultPolicy())
			if d.Rule != tc.rule {
				t.Fatalf("rule %s, want %s: %s", d.Rule, tc.rule, d.Message)
			}
			save, ok := d.Step.(SaveLedger)
			if tc.reason == "" || !ok {
				return
			}
			result := save.Ledger.Order.Result
			if result == nil || result.Reason != tc.reason || save.Ledger.Record.Failures != 2 || save.Ledger.Claim == nil {
				t.Fatalf("ledger %+v", save.Ledger)
			}
			if d.Reason != tc.reason {
				t.Errorf("told as %s", d.Reason)
			}
		})
	}
}

// TestRulesBranchByConditionsOnly: TestMutants cannot remove an if statement from
// the rules.
func TestRulesBranchByConditionsOnly(t *testing.T) {
	files := token.NewFileSet()
	for _, name := range []string{"rules_host.go", "rules_preparation.go", "../remediation/rules.go"} {
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op != token.ADD {
					t.Errorf("%s: %s: make it a named condition", files.Position(n.Pos()), n.Op)
				}
			case *ast.IfStmt, *ast.SwitchStmt, *ast.ForStmt, *ast.RangeStmt, *ast.FuncLit:
				t.Errorf("%s: %T: make it a rule with a named condition", files.Position(n.Pos()), n)
			}
			return true
		})
	}
}

func TestConditions(t *testing.T) {
	s := newScene(func(s *scene) {
		s.host.Spec.Claim = claimOf(infrav1.ClaimReleasing)
		s.obs.BMC, s.obs.BMCMessage = BMCTimeout, "no answer for 30 s"
	})
	decision := Next(s.host, s.obs, DefaultPolicy())
	got := map[string]string{}
	for _, c := range Conditions(s.host, s.obs, decision) {
		got[c.Type] = string(c.Status) + " " + c.Reason
		if c.Message == "" || c.ObservedGeneration != s.host.Generation {
			t.Errorf("%s: message %q, generation %d", c.Type, c.Message, c.ObservedGeneration)
		}
	}
	want := map[string]string{
		infrav1.HostBMCReachableCondition: "False BMCTimeout", infrav1.HostCredentialsValidCondition: "Unknown BMCTimeout",
		infrav1.HostUniqueCondition: "True Unique", infrav1.HostInspectedCondition: "True Inspected",
		infrav1.HostAvailableCondition: "False Claimed", infrav1.HostProvisionedCondition: "False Releasing",
		infrav1.HostCleanedCondition: "False NotCleaned", infrav1.HostFencedCondition: "False Fencing",
		infrav1.HostHealthyCondition: "Unknown HealthUnknown", infrav1.HostPreparedCondition: "Unknown NotApplicable",
		infrav1.ReadyCondition: "False BMCTimeout", infrav1.HostBootSecureCondition: "False NetworkTrusted",
		infrav1.StalledCondition: "False NotStalled",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// Stalled is True for a host that needs an operator, and False while work runs or may still start.
func TestStalledOnlyIfOperatorIsNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*scene)
		reason string
		want   metav1.ConditionStatus
	}{
		"in maintenance": {func(s *scene) { s.host.Spec.Maintenance = new(true) }, infrav1.ReasonMaintenance, metav1.ConditionTrue},
		"off by hand":    {func(s *scene) { s.host.Spec.Power = infrav1.PowerIntentOff }, infrav1.ReasonPoweredOff, metav1.ConditionTrue},
		"without a BMC":  {func(s *scene) { s.host.Spec.BMC = nil }, infrav1.ReasonUnmanaged, metav1.ConditionTrue},
		"in quarantine":  {quarantinedScene(infrav1.QuarantineInstallFailed), infrav1.ReasonQuarantined, metav1.ConditionTrue},
		"found on":       {func(s *scene) { s.obs.Power, s.host.Spec.Record = infrav1.PowerStateOn, nil }, infrav1.ReasonPoweredOnUnexpectedly, metav1.ConditionTrue},
		"Available":      {func(*scene) {}, infrav1.ReasonAvailable, metav1.ConditionFalse},
		"in use": {func(s *scene) {
			s.host.Spec.Claim, s.obs.Power = claimOf(infrav1.ClaimProvisioned), infrav1.PowerStateOn
		}, infrav1.ReasonProvisioned, metav1.ConditionFalse},
		"without a network":  {func(s *scene) { s.obs.NetworkMissing, s.host.Spec.Record = true, nil }, infrav1.ReasonNetworkMissing, metav1.ConditionFalse},
		"without its Secret": {func(s *scene) { s.obs.BMC = BMCCredentialsMissing }, infrav1.ReasonCredentialsMissing, metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(tc.change)
			decision := Next(s.host, s.obs, DefaultPolicy())
			if decision.Reason != tc.reason {
				t.Fatalf("%s decides %s: %s; want %s", decision.Rule, decision.Reason, decision.Message, tc.reason)
			}
			for _, c := range Conditions(s.host, s.obs, decision) {
				if c.Type == infrav1.StalledCondition && c.Status != tc.want {
					t.Errorf("Stalled is %s, want %s", c.Status, tc.want)
				}
			}
		})
	}
	for name, tc := range map[string]struct {
		decision Decision
		want     metav1.ConditionStatus
	}{
		"waits for approval":   {Decision{Step: Idle{}, Reason: infrav1.ReasonWaitingForApproval}, metav1.ConditionTrue},
		"goes into quarantine": {Decision{Step: SaveLedger{}, Reason: infrav1.ReasonQuarantined}, metav1.ConditionFalse},
		"is being powered off": {Decision{Step: PowerOff{}, Reason: infrav1.ReasonPoweredOff}, metav1.ConditionFalse},
	} {
		if got := stalled(tc.decision).Status; got != tc.want {
			t.Errorf("a host that %s: Stalled is %s, want %s", name, got, tc.want)
		}
	}
}

// A host without facts is inspected before it is Available. A claimed host is released and cleaned
// first.
func TestLostFactsAreInspectedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*scene)
		rule   string
		order  infrav1.OrderKind
		phase  infrav1.IngotHostPhase
	}{
		"free":          {func(*scene) {}, "start/order", infrav1.OrderInspect, infrav1.PhaseRegistering},
		"to be cleaned": {func(s *scene) { s.host.Spec.Record.CleaningDue = infrav1.CleaningMetadata }, "start/order", infrav1.OrderInspect, infrav1.PhaseDeprovisioning},
		"released":      {func(s *scene) { s.host.Spec.Claim = fencedClaim() }, "start/order", infrav1.OrderClean, infrav1.PhaseDeprovisioning},
		"restored":      {func(s *scene) { s.obs.FactsAwaitedUntil = day().Add(time.Second) }, "start/order", "", infrav1.PhaseRegistering},
		"in use":        {func(s *scene) { s.host.Spec.Claim = claimOf(infrav1.ClaimProvisioned) }, "provisioned/idle", "", infrav1.PhaseProvisioned},
		"off by hand":   {func(s *scene) { s.host.Spec.Power = infrav1.PowerIntentOff }, "start/powered-off", "", infrav1.PhaseRegistering},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) { s.obs.FactsMissing = true; tc.change(s) })
			got := Next(s.host, s.obs, DefaultPolicy())
			var order infrav1.OrderKind
			if save, saves := got.Step.(SaveLedger); saves {
				order = save.Ledger.Order.Kind
			}
			if got.Rule != tc.rule || order != tc.order || got.Phase != tc.phase {
				t.Errorf("%s, order %q, phase %s: want %s, %q, %s", got.Rule, order, got.Phase, tc.rule, tc.order, tc.phase)
			}
			for _, c := range Conditions(s.host, s.obs, got) {
				if c.Type == infrav1.HostAvailableCondition && c.Status != metav1.ConditionFalse {
					t.Errorf("%s is %s without facts", c.Type, c.Status)
				}
			}
		})
	}
}

// In a namespace that is being deleted the message has the remedy that works.
func TestNamespaceTerminatingMessage(t *testing.T) {
	s := newScene(func(s *scene) {
		s.host.Spec.Claim = claimOf(infrav1.ClaimReleasing)
		s.obs.BMC, s.obs.BMCMessage = BMCNamespaceTerminating, "the namespace is being deleted"
	})
	got := Next(s.host, s.obs, DefaultPolicy())
	if got.Reason != infrav1.ReasonNamespaceTerminating || !strings.Contains(got.Message, infrav1.ForceReleaseAnnotation) || len(got.Message) > 250 {
		t.Errorf("%s: %s", got.Reason, got.Message)
	}
	s.host.Annotations = map[string]string{infrav1.ForceReleaseAnnotation: givenAt(day())}
	if got := Next(s.host, s.obs, DefaultPolicy()); got.Rule != "force-release" {
		t.Errorf("after force-release decides %s: %s", got.Rule, got.Message)
	}
}
