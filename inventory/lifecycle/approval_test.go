// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestEnrolledHostWaitsForApproval(t *testing.T) {
	base := func() (*infrav1.IngotHost, Observation) {
		host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h", Labels: map[string]string{infrav1.EnrolledLabel: "", "rack": "a"}}}
		host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = "52:54:00:00:00:01", "net"
		host.Spec.BMC = &infrav1.BMC{Address: "redfish://bmc"}
		return host, Observation{Now: time.Unix(1e9, 0), NewID: "00000000-0000-4000-8000-000000000001", Power: infrav1.PowerStateOff}
	}
	accept := SaveLedger{RemoveLabels: []string{infrav1.EnrolledLabel}}
	approve := func(h *infrav1.IngotHost, _ *Observation) {
		h.Annotations = map[string]string{infrav1.ApproveAnnotation: givenAt(time.Unix(1e9, 0))}
	}
	for name, tc := range map[string]struct {
		change func(*infrav1.IngotHost, *Observation)
		rule   string
		step   Step
		reason string
		says   string
	}{
		"waits": {func(*infrav1.IngotHost, *Observation) {}, "enrolled/waits", Idle{}, infrav1.ReasonWaitingForApproval, infrav1.ApproveAnnotation},
		"waits, on": {func(_ *infrav1.IngotHost, o *Observation) { o.Power = infrav1.PowerStateOn }, "enrolled/waits", Idle{},
			infrav1.ReasonWaitingForApproval, "shut it down"},
		"waits, and a person wants it on": {func(h *infrav1.IngotHost, _ *Observation) { h.Spec.Power = infrav1.PowerIntentOn }, "enrolled/waits", Idle{},
			infrav1.ReasonWaitingForApproval, "approve"},
		"no BMC": {func(h *infrav1.IngotHost, _ *Observation) { h.Spec.BMC = nil }, "enrolled/waits", Idle{}, infrav1.ReasonWaitingForApproval, "set spec.bmc"},
		"approved, no BMC": {func(h *infrav1.IngotHost, o *Observation) { approve(h, o); h.Spec.BMC = nil }, "enrolled/approved", Idle{},
			infrav1.ReasonWaitingForApproval, "Set spec.bmc"},
		"approved":   {approve, "enrolled/wanted", accept, infrav1.ReasonEnrolled, "inspects it next"},
		"BMC silent": {func(_ *infrav1.IngotHost, o *Observation) { o.BMC = BMCUnreachable }, "enrolled/waits", Idle{}, infrav1.ReasonWaitingForApproval, "approve"},
		"deleted":    {func(_ *infrav1.IngotHost, o *Observation) { o.Deleting = true }, "deleting/forget", RemoveFinalizer{}, "", ""},
		"duplicate": {func(_ *infrav1.IngotHost, o *Observation) { o.DuplicateOf = "metal/other" }, "duplicate", Idle{}, infrav1.ReasonDuplicate,
			"metal/other"},
		"in the ledger, and labelled by a person": {func(h *infrav1.IngotHost, o *Observation) {
			o.AddressRecorded = true
			h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(o.Now)}
		}, "start/available", Idle{}, infrav1.ReasonAvailable, ""},
		"registered by a person": {func(h *infrav1.IngotHost, _ *Observation) { h.Labels = nil }, "start/address", RecordAddress{}, infrav1.ReasonInProgress, ""},
	} {
		t.Run(name, func(t *testing.T) {
			host, obs := base()
			tc.change(host, &obs)
			got := Next(host, obs, DefaultPolicy())
			if got.Rule != tc.rule || !cmp.Equal(got.Step, tc.step) || tc.reason != "" && got.Reason != tc.reason || !strings.Contains(got.Message, tc.says) {
				t.Errorf("%s: %#v %s %q", got.Rule, got.Step, got.Reason, got.Message)
			}
			ready := Conditions(host, obs, got)
			i := slices.IndexFunc(ready, func(c metav1.Condition) bool { return c.Type == infrav1.HostAvailableCondition })
			if is := ready[i].Status == metav1.ConditionTrue; is != (tc.reason == infrav1.ReasonAvailable) {
				t.Errorf("available: %v", is)
			}
		})
	}
}

// Without any of the conditions of the enrolled rules, a case above or one of these fails.
func TestEnrolledGuards(t *testing.T) {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{infrav1.EnrolledLabel: ""}}}
	host.Spec.BMC = &infrav1.BMC{}
	obs := Observation{Now: time.Unix(1e9, 0)}
	for _, r := range enrolledRules()[0].Rules[:2] {
		for i := range r.When {
			in := &input{host: host.DeepCopy(), obs: obs}
			if i == 0 { // the first is the approval: without it nobody is taken over
				if r.Applies(in) {
					t.Errorf("%s applies to a host that nobody approved", r.Name)
				}
				r.When = r.When[1:]
				if !r.Applies(in) {
					t.Errorf("%s is held back by something else than the approval", r.Name)
				}
				break
			}
		}
	}
	for name, change := range map[string]func(*infrav1.IngotHost){
		"claim":  func(h *infrav1.IngotHost) { h.Spec.Claim = &infrav1.HostClaim{} },
		"record": func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{} },
		"order":  func(h *infrav1.IngotHost) { h.Spec.Order = &infrav1.HostOrder{} },
		"label":  func(h *infrav1.IngotHost) { h.Labels = nil },
	} {
		h := host.DeepCopy()
		change(h)
		in := &input{host: h, obs: obs, claim: h.Spec.Claim, record: h.Spec.Record, order: h.Spec.Order}
		if in.enrolled() {
			t.Errorf("%s: the host is taken for one that waits", name)
		}
	}
}

// The names of a server do not depend on the NIC that it booted from.
func TestEnrolledNames(t *testing.T) {
	nics := []infrav1.HardwareNIC{{MAC: "52:54:00:00:00:01"}, {MAC: "52:54:00:00:00:02"}}
	for name, tc := range map[string]struct {
		facts infrav1.IngotHardwareSpec
		want  []string
	}{
		"UUID": {infrav1.IngotHardwareSpec{System: infrav1.HardwareSystem{UUID: "4C4C4544-0000-1000-8000-00000000000A"}, NICs: nics},
			[]string{"enrolled-4c4c4544-0000-1000-8000-00000000000a", "enrolled-52-54-00-00-00-01"}},
		"a maker's default": {infrav1.IngotHardwareSpec{System: infrav1.HardwareSystem{UUID: "03000200-0400-0500-0006-000700080009"}, NICs: nics},
			[]string{"enrolled-52-54-00-00-00-01"}},
		"zeroes":  {infrav1.IngotHardwareSpec{System: infrav1.HardwareSystem{UUID: "00000000-0000-0000-0000-000000000000"}}, nil},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, EnrolledNames(tc.facts)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
		})
	}
	if !SharesNIC(infrav1.IngotHardwareSpec{NICs: nics}, infrav1.IngotHardwareSpec{NICs: nics[1:]}) ||
		SharesNIC(infrav1.IngotHardwareSpec{NICs: nics[:1]}, infrav1.IngotHardwareSpec{NICs: nics[1:]}) {
		t.Error("machines are told apart by their NICs wrongly")
	}
}
