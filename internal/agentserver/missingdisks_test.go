// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory"
)

// knownDisks is what earlier sessions found: d1 and d2, as found() does, and more.
func knownDisks(more ...infrav1.HardwareDisk) *infrav1.IngotHardware {
	known := recorded(here)
	known.Spec.Disks = append(inventory.HardwareFromAgent(found()).Disks, more...)
	return known
}

// A host is not clean while a known disk is missing.
func TestWipeNeedsEveryKnownDisk(t *testing.T) {
	third := infrav1.HardwareDisk{Name: "/dev/sda", SerialNumber: "d3", SizeBytes: ptr.To(int64(300e9))}
	claimed := func(state infrav1.ClaimState) func(*infrav1.IngotHost) {
		return func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Order.Kind = state, infrav1.OrderClean }
	}
	for _, c := range []struct {
		name   string
		host   func(*infrav1.IngotHost)
		known  *infrav1.IngotHardware
		says   string
		absent string
	}{
		{name: "all are there", known: knownDisks()},
		{name: "a new one as well", known: func() *infrav1.IngotHardware {
			known := knownDisks()
			known.Spec.Disks = known.Spec.Disks[:1]
			return known
		}()},
		{name: "one has another name and size", known: func() *infrav1.IngotHardware {
			known := knownDisks()
			known.Spec.Disks[1].Name, known.Spec.Disks[1].SizeBytes = "/dev/sdz", ptr.To(int64(1e9))
			return known
		}()},
		{name: "a known one is missing", known: knownDisks(third), says: "disks are missing: disk with serial number d3, 300 GB. Reconnect", absent: "d1"},
		{name: "the one installed to is missing, nothing else is known", known: recorded(here), says: "disk with WWN 0x5000, 8 GB. Reconnect",
			host: func(h *infrav1.IngotHost) {
				h.Spec.Claim.RootDisk = &infrav1.DiskReference{WWN: "0x5000", SizeBytes: ptr.To(int64(8e9))}
			}},
		{name: "after a quarantine there is no claim", known: knownDisks(third), says: "serial number d3",
			host: func(h *infrav1.IngotHost) {
				h.Spec.Claim = nil
				h.Spec.Record = &infrav1.HostRecord{CleaningDue: infrav1.CleaningMetadata, LastInstanceID: instanceID}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			changes := []func(*infrav1.IngotHost){claimed(infrav1.ClaimReleasing)}
			if c.host != nil {
				changes = append(changes, c.host)
			}
			s := newSite(t, append(world(changes...), c.known)...)
			a := s.agent(claimsOf(token.Clean), here)
			if c.says == "" {
				opened(s, a)
				order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{})
				if reason != "" || order.Clean == nil || len(order.Clean.Disks) != 2 {
					t.Errorf("refusal %q, order %+v", reason, order.Clean)
				}
				return
			}
			if reason := a.open(); reason != agentapi.ReasonHardwareMismatch {
				t.Fatalf("refusal %q", reason)
			}
			result := s.host().Spec.Order.Result
			if result == nil || result.Outcome != infrav1.OrderFailed || result.Reason != agentapi.FailureDiskNotFound {
				t.Fatalf("result %+v", result)
			}
			for _, part := range []string{c.says, infrav1.InspectAnnotation, infrav1.ClearQuarantineAnnotation} {
				if !strings.Contains(result.Message, part) {
					t.Errorf("%q does not say %q", result.Message, part)
				}
			}
			if c.absent != "" && strings.Contains(result.Message, c.absent) {
				t.Errorf("%q names a disk that is there", result.Message)
			}
			if order, reason := call[agentapi.Order](a, agentapi.PathOrder, agentapi.OrderRequest{}); reason == "" {
				t.Errorf("order %+v all the same", order)
			}
			if diff := cmp.Diff(c.known.Spec.Disks, disksOf(s)); diff != "" {
				t.Errorf("the missing disk is forgotten, and the next attempt would succeed:\n%s", diff)
			}
		})
	}
}

func disksOf(s *site) []infrav1.HardwareDisk {
	s.t.Helper()
	hardware := &infrav1.IngotHardware{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: "metal", Name: "h1"}, hardware); err != nil {
		s.t.Fatal(err)
	}
	return hardware.Spec.Disks
}

// Only an inspection forgets a disk. An install without it does not.
func TestOnlyInspectionForgetsDisks(t *testing.T) {
	third := infrav1.HardwareDisk{Name: "/dev/sdc", SerialNumber: "d3", SizeBytes: ptr.To(int64(300e9))}
	for _, c := range []struct {
		purpose token.Purpose
		host    func(*infrav1.IngotHost)
		want    int
	}{
		{token.Install, func(*infrav1.IngotHost) {}, 3},
		{token.Inspect, func(h *infrav1.IngotHost) { h.Spec.Claim, h.Spec.Order.Kind = nil, infrav1.OrderInspect }, 2},
	} {
		t.Run(string(c.purpose), func(t *testing.T) {
			s := newSite(t, append(world(c.host), knownDisks(third))...)
			claims := claimsOf(c.purpose)
			opened(s, s.agent(claims, here))
			if disks := disksOf(s); len(disks) != c.want {
				t.Errorf("%d disks known, want %d: %+v", len(disks), c.want, disks)
			}
		})
	}
}

// An install uses no other disk while its disk is missing.
func TestInstallNeedsItsDisk(t *testing.T) {
	smaller := infrav1.HardwareDisk{Name: "/dev/sda", SerialNumber: "d0", SizeBytes: ptr.To(int64(50e9)), Rotational: ptr.To(false)}
	larger := infrav1.HardwareDisk{Name: "/dev/sdz", SerialNumber: "d9", SizeBytes: ptr.To(int64(1 << 50)), Rotational: ptr.To(false)}
	for _, c := range []struct {
		name  string
		claim func(*infrav1.HostClaim)
		known *infrav1.IngotHardware
		says  string
	}{
		{name: "nothing is known", known: recorded(here)},
		{name: "all are there", known: knownDisks()},
		{name: "another one is missing", known: knownDisks(larger)},
		{name: "the smallest is missing", known: knownDisks(smaller), says: "disks are missing: disk with serial number d0, 50 GB. Reconnect",
			claim: func(c *infrav1.HostClaim) { c.RootDeviceHints = nil }},
		{name: "the hints say another one", known: knownDisks(smaller),
			claim: func(c *infrav1.HostClaim) { c.RootDeviceHints = &infrav1.RootDeviceHints{SerialNumber: "d1"} }},
		{name: "the hints say the missing one", known: knownDisks(smaller), says: "disks are missing: disk with serial number d0",
			claim: func(c *infrav1.HostClaim) { c.RootDeviceHints = &infrav1.RootDeviceHints{SerialNumber: "d0"} }},
		{name: "an earlier attempt went to one that is missing", known: recorded(here), says: "disks are missing: disk with WWN 0x5000",
			claim: func(c *infrav1.HostClaim) {
				c.RootDisk = &infrav1.DiskReference{WWN: "0x5000", SizeBytes: ptr.To(int64(8e9))}
			}},
		{name: "one of a mirror is missing", known: knownDisks(smaller), says: "disks are missing: disk with serial number d0",
			claim: func(c *infrav1.HostClaim) {
				c.RootDeviceHints = nil
				c.SoftwareRAID = &infrav1.SoftwareRAID{Level: infrav1.SoftwareRAIDLevel1}
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t, append(world(func(h *infrav1.IngotHost) {
				if c.claim != nil {
					c.claim(h.Spec.Claim)
				}
			}), c.known)...)
			a := s.agent(claimsOf(token.Install), here)
			if c.says == "" {
				opened(s, a)
				if disk := s.host().Spec.Claim.RootDisk; disk == nil {
					t.Error("no root disk is recorded")
				}
				return
			}
			before := s.host().Spec.Claim.RootDisk
			if reason := a.open(); reason != agentapi.ReasonHardwareMismatch {
				t.Fatalf("refusal %q", reason)
			}
			host := s.host()
			result := host.Spec.Order.Result
			if result == nil || result.Outcome != infrav1.OrderFailed || result.Reason != agentapi.FailureDiskNotFound {
				t.Fatalf("result %+v", result)
			}
			for _, part := range []string{"Nothing was written", c.says, infrav1.InspectAnnotation, infrav1.ClearQuarantineAnnotation} {
				if !strings.Contains(result.Message, part) {
					t.Errorf("%q does not say %q", result.Message, part)
				}
			}
			if diff := cmp.Diff(before, host.Spec.Claim.RootDisk); diff != "" {
				t.Errorf("another root disk is recorded:\n%s", diff)
			}
		})
	}
}

// A server with more disks than Ingot supports is not clean.
func TestWipeOfTooManyDisks(t *testing.T) {
	s := newSite(t, append(world(func(h *infrav1.IngotHost) {
		h.Spec.Claim.State, h.Spec.Order.Kind = infrav1.ClaimReleasing, infrav1.OrderClean
	}), recorded(here))...)
	hardware := found()
	for i := range 300 {
		hardware.Disks = append(hardware.Disks, agentapi.Disk{Name: fmt.Sprintf("/dev/sd%03d", i), Serial: fmt.Sprint("s", i), SizeBytes: 1e9})
	}
	_, reason := call[agentapi.Session](s.agent(claimsOf(token.Clean), here), agentapi.PathSession, agentapi.SessionRequest{BootID: "b", Version: "v", Hardware: hardware})
	if reason != agentapi.ReasonHardwareMismatch {
		t.Fatalf("refusal %q", reason)
	}
	result := s.host().Spec.Order.Result
	if result == nil || result.Outcome != infrav1.OrderFailed || result.Reason != infrav1.ReasonTooManyDisks || !strings.Contains(result.Message, "302 disks") {
		t.Fatalf("result %+v", result)
	}
}
