// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A selected host is judged as in Select, except for other machines.
func TestMisfit(t *testing.T) {
	host := func(change func(Candidate)) Candidate {
		c := candidate("h1", "r1")
		change(c)
		return c
	}
	memory := resource.MustParse("1Pi")
	for name, tc := range map[string]struct {
		ask  func(*SelectionRequest)
		host Candidate
		want string
	}{
		"fits":                   {func(*SelectionRequest) {}, candidate("h1", "r1"), ""},
		"chosen, by the machine": {func(r *SelectionRequest) { r.Named = map[string]bool{"h1": true} }, candidate("h1", "r1"), ""},
		"another failure domain": {func(r *SelectionRequest) { r.FailureDomain = "r2" }, candidate("h1", "r1"), `in failure domain "r1"`},
		"another architecture":   {func(r *SelectionRequest) { r.Architecture = "arm64" }, candidate("h1", "r1"), `architecture "amd64"`},
		"without hardware":       {func(*SelectionRequest) {}, Candidate{Host: candidate("h1", "r1").Host}, "its IngotHardware does not exist"},
		"claimed":                {func(*SelectionRequest) {}, host(func(c Candidate) { c.Host.Spec.Claim = claimOf(infrav1.ClaimProvisioned) }), "claimed"},
		"it has the endpoint by now": {endpoint("192.0.2.7", false), recorded("h1", "192.0.2.7", ""),
			"recorded with 192.0.2.7, the endpoint of the cluster. Delete the IngotHost and register it again to change its address"},
		"several, in Select's order": {func(r *SelectionRequest) {
			r.FailureDomain = "r2"
			r.Machine.Spec.HostSelector = &infrav1.HostSelector{Minimum: &infrav1.HardwareMinimum{Memory: &memory}}
		}, candidate("h1", "r1"), `in failure domain "r1"; 64Gi memory of 1Pi`},
	} {
		got, err := Misfit(request(tc.ask), tc.host)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	wrong := request(func(r *SelectionRequest) {
		r.Cluster.Spec.HostSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
	})
	if _, err := Misfit(wrong, candidate("h1", "r1")); !errors.Is(err, ErrSelectorInvalid) {
		t.Errorf("a selector of nonsense: %v", err)
	}
}
