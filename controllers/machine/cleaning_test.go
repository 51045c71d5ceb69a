// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/testscheme"
)

func TestFollowCleaning(t *testing.T) {
	scheme := testscheme.Scheme(t)
	resource := schema.GroupResource{Resource: "ingothosts"}
	for name, tc := range map[string]struct {
		wanted infrav1.CleaningMode
		state  infrav1.ClaimState
		fault  error
		// cleaning of the claim then, and how often it is written.
		cleaning infrav1.CleaningMode
		writes   int
		stops    bool
		fails    bool
	}{
		"another cleaning":           {wanted: infrav1.CleaningNone, state: infrav1.ClaimProvisioned, cleaning: infrav1.CleaningNone, writes: 1},
		"while it is installed":      {wanted: infrav1.CleaningNone, state: infrav1.ClaimProvisioning, cleaning: infrav1.CleaningNone, writes: 1},
		"the same":                   {wanted: infrav1.CleaningMetadata, state: infrav1.ClaimProvisioned, cleaning: infrav1.CleaningMetadata},
		"none is said":               {state: infrav1.ClaimProvisioned, cleaning: infrav1.CleaningMetadata},
		"its release has begun":      {wanted: infrav1.CleaningNone, state: infrav1.ClaimReleasing, cleaning: infrav1.CleaningMetadata},
		"the host has changed since": {wanted: infrav1.CleaningNone, state: infrav1.ClaimProvisioned, fault: apierrors.NewConflict(resource, "h", errors.New("modified")), cleaning: infrav1.CleaningMetadata, stops: true},
		"the host is gone":           {wanted: infrav1.CleaningNone, state: infrav1.ClaimProvisioned, fault: apierrors.NewNotFound(resource, "h"), cleaning: infrav1.CleaningMetadata, stops: true},
		"the API server is away":     {wanted: infrav1.CleaningNone, state: infrav1.ClaimProvisioned, fault: errors.New("no connection"), cleaning: infrav1.CleaningMetadata, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
			host.Spec.Claim = &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, State: tc.state, Cleaning: infrav1.CleaningMetadata, InstanceID: "1"}
			writes := 0
			c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(host).Build(), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
					if tc.fault != nil {
						return tc.fault
					}
					writes++
					return c.Patch(ctx, obj, patch, opts...)
				},
			})
			s := &scope{machine: &infrav1.IngotMachine{Spec: infrav1.IngotMachineSpec{Cleaning: tc.wanted}}, host: &infrav1.IngotHost{}}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(host), s.host); err != nil {
				t.Fatal(err)
			}
			before := s.host.DeepCopy()
			r := &Reconciler{Client: c}
			for range 2 { // the second time writes nothing
				out, err := r.followCleaning(t.Context(), s)
				if (err != nil) != tc.fails || out.stop != tc.stops || tc.stops && out.after != r.timing().Conflict {
					t.Fatalf("%+v, %v", out, err)
				}
			}
			got := &infrav1.IngotHost{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(host), got); err != nil {
				t.Fatal(err)
			}
			want := before.Spec.DeepCopy()
			want.Claim.Cleaning = tc.cleaning
			if diff := cmp.Diff(*want, got.Spec); diff != "" || writes != tc.writes {
				t.Errorf("%d writes, the host (-want +got):\n%s", writes, diff)
			}
			if s.host.Spec.Claim.Cleaning != tc.cleaning {
				t.Errorf("what follows goes by %s", s.host.Spec.Claim.Cleaning)
			}
		})
	}
}

// Cleaning of a running machine changes in its claim, without a boot.
func testCleaningOfARunningMachine(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h1", "")
	s.machine("m1")
	s.provision("m1")
	before := s.getHost("h1")
	m := s.get("m1")
	m.Spec.Cleaning = infrav1.CleaningNone
	s.must(s.api.Update(s.ctx, m))
	s.settle("m1")
	after := s.getHost("h1")
	want := before.Spec.DeepCopy()
	want.Claim.Cleaning = infrav1.CleaningNone
	if diff := cmp.Diff(*want, after.Spec); diff != "" {
		t.Errorf("the host (-want +got):\n%s", diff)
	}
	if got := s.get("m1"); got.Status.Initialization.Provisioned == nil || !*got.Status.Initialization.Provisioned {
		t.Errorf("not provisioned any more: %+v", got.Status)
	}
}
