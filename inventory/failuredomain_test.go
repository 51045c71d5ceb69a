// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestShownFailureDomain(t *testing.T) {
	cluster := func(label string, selects map[string]string) infrav1.IngotCluster {
		c := infrav1.IngotCluster{}
		c.Spec.FailureDomainLabel = label
		if selects != nil {
			c.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: selects}
		}
		return c
	}
	invalid := cluster("room", nil)
	invalid.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	claimed := &infrav1.HostClaim{FailureDomain: "r-claim"}
	for name, tc := range map[string]struct {
		claim    *infrav1.HostClaim
		clusters []infrav1.IngotCluster
		want     string
	}{
		"the rack without clusters":                      {want: "r1"},
		"the default label of a cluster":                 {clusters: []infrav1.IngotCluster{cluster("", nil)}, want: "r1"},
		"the label of the cluster":                       {clusters: []infrav1.IngotCluster{cluster("room", nil)}, want: "blue"},
		"the label of the first cluster that may use it": {clusters: []infrav1.IngotCluster{cluster("room", map[string]string{"room": "red"}), cluster("", nil)}, want: "r1"},
		"not of a label that the host lacks":             {clusters: []infrav1.IngotCluster{cluster("row", nil), cluster("room", nil)}, want: "blue"},
		"not of a cluster with an invalid selector":      {clusters: []infrav1.IngotCluster{invalid}, want: ""},
		"the domain that the claim records":              {claim: claimed, clusters: []infrav1.IngotCluster{cluster("room", nil)}, want: "r-claim"},
		"the label for a claim without a failure domain": {claim: &infrav1.HostClaim{}, want: "r1"},
	} {
		host := &infrav1.IngotHost{}
		host.Labels = map[string]string{infrav1.RackLabel: "r1", "room": "blue"}
		host.Spec.Claim = tc.claim
		if diff := cmp.Diff(tc.want, ShownFailureDomain(host, tc.clusters)); diff != "" {
			t.Errorf("%s: failure domain (-want +got):\n%s", name, diff)
		}
	}
}
