// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/objecthistory"
)

// versionsOf are the versions of the scene's objects that were recorded.
func versionsOf[T client.Object](t *testing.T, s *scene, h *objecthistory.History) []T {
	t.Helper()
	must(t, h.Settle(t.Context()))
	all, err := h.Versions()
	must(t, err)
	var own []T
	for _, v := range all {
		if obj, ok := v.Object.(T); ok && obj.GetNamespace() == s.Namespace {
			own = append(own, obj)
		}
	}
	return own
}

// offers records which failure domains control planes are offered by Cluster API,
// and returns their names.
func (s *scene) offers(t *testing.T) func(*testing.T) []string {
	t.Helper()
	h := s.Record(t, &clusterv1.ClusterList{})
	return func(t *testing.T) []string {
		t.Helper()
		var names []string
		for _, cluster := range versionsOf[*clusterv1.Cluster](t, s, h) {
			for _, domain := range cluster.Status.FailureDomains {
				if ptr.Deref(domain.ControlPlane, false) {
					names = append(names, domain.Name)
				}
			}
		}
		return names
	}
}

// wipedBetween: a host that one instance had has another now, and was free and
// wiped in between.
func (s *scene) wipedBetween(t *testing.T, h *objecthistory.History, name, before string) {
	t.Helper()
	released, wiped, again := false, false, false
	for _, host := range versionsOf[*infrav1.IngotHost](t, s, h) {
		if host.Name != name {
			continue
		}
		claim, record := host.Spec.Claim, host.Spec.Record
		switch {
		case claim != nil && claim.InstanceID == before && claim.State == infrav1.ClaimReleasing:
			released = true
		case claim == nil && released && record != nil && !record.SanitizedTime.IsZero():
			wiped = true
		case claim != nil && claim.InstanceID != before:
			again = wiped
		}
	}
	if !released || !wiped || !again {
		t.Errorf("host %s: released %t, then wiped %t, then claimed again %t", name, released, wiped, again)
	}
}
