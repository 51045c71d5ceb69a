// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Hosts own a Secret, and it is deleted with the last of them, only if its creator has asked
// for that and few hosts use it. Every other Secret is written once, moves by its label and
// stays.
func TestOwnersOfASharedSecret(t *testing.T) {
	for name, tc := range map[string]struct {
		before, after  int  // hosts that adopt it; then some more
		kept           bool // by a controller
		unlabeled      bool // its creator did not ask for its deletion with the hosts
		rotated        bool
		forbidden      bool // hosts may not own Secrets
		earlier        bool // owned by a host before
		owners, writes int
		moves          bool
	}{
		"one":                    {before: 1, owners: 1, writes: 1},
		"a few":                  {before: 3, owners: 3, writes: 3},
		"as many as may own it":  {before: maxOwners, owners: maxOwners, writes: maxOwners},
		"a site":                 {before: 500, writes: 1, moves: true},
		"a few, and then a site": {before: maxOwners, after: 200, writes: maxOwners + 1, moves: true},
		"a controller's":         {before: 2, after: maxOwners, kept: true, owners: 1, writes: 1},
		"a controller's now":     {before: 2, after: 1, kept: true, earlier: true, owners: 1, writes: 1},
		"not asked for":          {before: 3, unlabeled: true, writes: 1, moves: true},
		"not asked for, earlier": {before: 1, unlabeled: true, earlier: true, writes: 1, moves: true},
		"rotated":                {before: 1, rotated: true, earlier: true, writes: 1, moves: true},
		"owning is forbidden":    {before: 2, forbidden: true, writes: 1, moves: true},
	} {
		t.Run(name, func(t *testing.T) {
			password := credentials(secretKeys()...)
			if tc.unlabeled {
				password.Labels = nil
			}
			if tc.rotated {
				password.Annotations = map[string]string{infrav1.RotatedAtAnnotation: "2026-01-01T00:00:00Z"}
			}
			if tc.kept {
				password.OwnerReferences = []metav1.OwnerReference{{APIVersion: "external-secrets.io/v1", Kind: "ExternalSecret", Name: "bmc", UID: "e", Controller: ptr.To(true)}}
			}
			if tc.earlier {
				password.OwnerReferences = append(password.OwnerReferences, metav1.OwnerReference{
					APIVersion: infrav1.GroupVersion.String(), Kind: "IngotHost", Name: "gone", UID: "g"})
			}
			s := newScene(t, password)
			writes := 0
			watched, ok := s.Client.(client.WithWatch)
			if !ok {
				t.Fatalf("%T does not watch", s.Client)
			}
			s.Client = interceptor.NewClient(watched, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
					if tc.forbidden && len(object.GetOwnerReferences()) > 0 {
						return apierrors.NewForbidden(corev1.Resource("secrets"), object.GetName(), errors.New("cannot set an ownerRef on a resource you can't delete"))
					}
					writes++
					return c.Patch(ctx, object, patch, options...)
				},
			})
			var hosts []*infrav1.IngotHost
			for _, group := range []int{tc.before, tc.after} {
				for range group {
					host := s.host.DeepCopy()
					host.Name, host.UID = fmt.Sprintf("h%d", len(hosts)), types.UID(fmt.Sprint(len(hosts)+1))
					if err := s.Client.Create(t.Context(), host); err != nil {
						t.Fatal(err)
					}
					hosts = append(hosts, host)
				}
				for range 2 { // the second time nothing is to be done
					for _, host := range hosts {
						if _, err := s.Find(t.Context(), host, nil); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			secret := &corev1.Secret{}
			if err := s.Live.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "bmc"}, secret); err != nil {
				t.Fatal(err)
			}
			_, moves := secret.Labels[clusterctlv1.ClusterctlMoveLabel]
			if _, shared := secret.Labels[infrav1.BMCCredentialsSharedLabel]; shared != moves {
				t.Errorf("labels %v", secret.Labels)
			}
			if len(secret.OwnerReferences) != tc.owners || writes != tc.writes || moves != tc.moves {
				t.Errorf("%d owners after %d writes, moves by its label: %t; want %d, %d, %t", len(secret.OwnerReferences), writes, moves, tc.owners, tc.writes, tc.moves)
			}
			if _, watched := secret.Labels[infrav1.BMCCredentialsLabel]; !watched {
				t.Errorf("labels %v", secret.Labels)
			}
			if !slices.Contains(secret.Finalizers, infrav1.InUseFinalizer) {
				t.Errorf("finalizers %v: the Secret can be deleted before its hosts", secret.Finalizers)
			}
		})
	}
}
