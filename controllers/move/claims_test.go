// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// claimant is a host with an IPAddressClaim of its name.
func claimant(name string, annotations ...string) (*infrav1.IngotHost, *ipamv1.IPAddressClaim) {
	host := hostWith(annotations...)
	host.Name, host.UID = name, types.UID(name)
	claim := &ipamv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: name,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(host, infrav1.GroupVersion.WithKind("IngotHost"))}}}
	return host, claim
}

// marks are the annotations and labels of an IPAddressClaim.
type marks struct{ Annotations, Labels map[string]string }

func (y *fixture) marksOf(name string) marks {
	y.t.Helper()
	claim := &ipamv1.IPAddressClaim{}
	if err := y.Client.Get(y.t.Context(), client.ObjectKey{Namespace: "metal", Name: name}, claim); err != nil {
		y.t.Fatal(err)
	}
	return marks{claim.Annotations, claim.Labels}
}

// IPAddressClaims are paused and unpaused with their hosts, and other annotations stay.
func TestClaimsArePausedWithTheirHosts(t *testing.T) {
	type text = map[string]string
	still := marks{text{clusterv1.PausedAnnotation: infrav1.ReasonMovePaused, paused: "a"}, text{clusterv1.ClusterNameLabel: "a"}}
	none := marks{}
	for name, tc := range map[string]struct {
		clusters []clusterv1.Cluster
		host     []string
		claim    marks
		want     marks
	}{
		"a move begins":                           {[]clusterv1.Cluster{clusterOf("b", ptr.To(true)), clusterOf("a", ptr.To(true))}, []string{blocked}, none, still},
		"standing still":                          {[]clusterv1.Cluster{clusterOf("a", ptr.To(true))}, []string{paused}, still, still},
		"made while it began":                     {[]clusterv1.Cluster{clusterOf("a", ptr.To(true))}, []string{paused}, none, still},
		"at work":                                 {[]clusterv1.Cluster{clusterOf("a", nil)}, []string{blocked}, none, none},
		"arrived, its cluster is unpaused":        {[]clusterv1.Cluster{clusterOf("a", nil)}, []string{paused}, still, none},
		"arrived, and not moved again":            {[]clusterv1.Cluster{clusterOf("a", nil)}, []string{paused, blocked}, still, none},
		"arrived before its cluster":              {nil, []string{paused}, still, still},
		"an operator ended the pause of its host": {nil, nil, still, none},
		"without a cluster":                       {nil, []string{paused}, none, marks{text{clusterv1.PausedAnnotation: infrav1.ReasonMovePaused, paused: ""}, nil}},
		"without a cluster, over":                 {nil, nil, marks{text{clusterv1.PausedAnnotation: infrav1.ReasonMovePaused, paused: ""}, nil}, none},
		"paused by a person":                      {[]clusterv1.Cluster{clusterOf("a", ptr.To(true))}, []string{blocked}, marks{text{clusterv1.PausedAnnotation: "mine"}, nil}, marks{text{clusterv1.PausedAnnotation: "mine", paused: "a"}, still.Labels}},
		"paused by a person, over":                {[]clusterv1.Cluster{clusterOf("a", nil)}, []string{paused}, marks{text{clusterv1.PausedAnnotation: "mine", paused: "a"}, still.Labels}, marks{text{clusterv1.PausedAnnotation: "mine"}, nil}},
		"of a Cluster by a person":                {[]clusterv1.Cluster{clusterOf("a", ptr.To(true))}, []string{blocked}, marks{nil, text{clusterv1.ClusterNameLabel: "z"}}, marks{text{clusterv1.PausedAnnotation: infrav1.ReasonMovePaused, paused: ""}, text{clusterv1.ClusterNameLabel: "z"}}},
		"of a Cluster by a person, over":          {[]clusterv1.Cluster{clusterOf("a", nil)}, []string{paused}, marks{text{clusterv1.PausedAnnotation: infrav1.ReasonMovePaused, paused: ""}, text{clusterv1.ClusterNameLabel: "z"}}, marks{nil, text{clusterv1.ClusterNameLabel: "z"}}},
		"its host is leaving":                     {[]clusterv1.Cluster{clusterOf("a", ptr.To(true))}, []string{leaving}, still, still},
		"the cluster is unpaused, no machine":     {[]clusterv1.Cluster{clusterOf("a", nil)}, []string{paused, "claimed"}, still, still},
		"all clusters are gone, it is pausing":    {nil, []string{paused, blocked}, still, still},
	} {
		t.Run(name, func(t *testing.T) {
			host, claim := claimant("h1", tc.host...)
			if _, claimed := host.Annotations["claimed"]; claimed {
				host.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, State: infrav1.ClaimProvisioned}
			}
			claim.Annotations, claim.Labels = tc.claim.Annotations, tc.claim.Labels
			_, machines := claimant("m1")
			machines.OwnerReferences[0].Kind = "IngotMachine"
			objects := []client.Object{host, claim, machines}
			for i := range tc.clusters {
				objects = append(objects, &tc.clusters[i])
			}
			y := newFixture(t, objects...)
			for range 2 {
				y.step()
				if diff := cmp.Diff(tc.want, y.marksOf("h1")); diff != "" {
					t.Errorf("claim (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(none, y.marksOf("m1")); diff != "" {
				t.Errorf("a machine's claim (-want +got):\n%s", diff)
			}
		})
	}
}

func TestClaimsArePausedBeforeTheirHosts(t *testing.T) {
	resource := ipamv1.GroupVersion.WithResource("ipaddressclaims").GroupResource()
	for name, tc := range map[string]struct {
		cluster clusterv1.Cluster
		host    []string
		claim   map[string]string
		err     error
		again   bool
		// writes of the host.
		writes int
	}{
		"pause, a newer version": {clusterOf("a", ptr.To(true)), nil, nil, apierrors.NewConflict(resource, "h1", errors.New("newer")), true, 0},
		"lift, a newer version":  {clusterOf("a", nil), []string{paused}, map[string]string{paused: "a"}, apierrors.NewConflict(resource, "h1", errors.New("newer")), true, 0},
		"pause, refused":         {clusterOf("a", ptr.To(true)), nil, nil, apierrors.NewForbidden(resource, "h1", errors.New("no")), false, 0},
		"pause, gone":            {clusterOf("a", ptr.To(true)), nil, nil, apierrors.NewNotFound(resource, "h1"), false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			host, claim := claimant("h1", tc.host...)
			claim.Annotations = tc.claim
			y := newFixture(t, &tc.cluster, host, claim)
			writes := 0
			y.fail = func(o client.Object) error {
				if _, isClaim := o.(*ipamv1.IPAddressClaim); isClaim {
					return tc.err
				}
				writes++
				return nil
			}
			result, err := y.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "metal"}})
			if writes != tc.writes || (result.RequeueAfter > 0) != tc.again || (err != nil) != (!tc.again && tc.writes == 0) {
				t.Errorf("%d writes of the host, %+v, %v", writes, result, err)
			}
		})
	}
}
