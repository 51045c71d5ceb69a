// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A Secret that hosts named once, and that was corrected, is as it was before: it neither
// goes with them nor moves.
func TestSecretThatIsNamedNoMore(t *testing.T) {
	own := map[string]string{infrav1.BMCCredentialsDeleteLabel: ""}
	labelled := map[string]string{infrav1.BMCCredentialsDeleteLabel: "", infrav1.BMCCredentialsLabel: ""}
	ofMany := map[string]string{infrav1.BMCCredentialsDeleteLabel: "", infrav1.BMCCredentialsLabel: "", infrav1.BMCCredentialsSharedLabel: "", clusterctlv1.ClusterctlMoveLabel: ""}
	moves, unasked := map[string]string{"app": "db", clusterctlv1.ClusterctlMoveLabel: ""}, map[string]string{"app": "db"}
	for name, tc := range map[string]struct {
		labels     map[string]string
		hosts      int  // that name the Secret
		corrected  int  // of them
		asCA       bool // of another host
		gone       bool // with the whole of spec.bmc
		wantOwners int
		want       map[string]string
	}{
		"one":                            {own, 1, 1, false, false, 0, own},
		"one, and another's CA is there": {own, 1, 1, true, false, 0, labelled},
		"one of two":                     {own, 2, 1, false, false, 1, labelled},
		"both":                           {own, 2, 2, false, false, 0, own},
		"a site, all":                    {own, maxOwners + 3, maxOwners + 3, false, false, 0, own},
		"a site, but for one":            {own, maxOwners + 3, maxOwners + 2, false, false, 0, ofMany},
		"nobody":                         {own, 2, 0, false, false, 2, labelled},
		"an application's":               {unasked, 1, 1, false, false, 0, unasked},
		"a move that is not ours":        {moves, 1, 1, false, false, 0, moves},
		"a BMC that is gone":             {own, 1, 1, false, true, 0, own},
		"of a site, all BMCs are gone":   {own, maxOwners + 3, maxOwners + 3, false, true, 0, own},
	} {
		t.Run(name, func(t *testing.T) {
			database, right := credentials(secretKeys()...), credentials(secretKeys()...)
			database.Name, database.Labels = "database", tc.labels
			s := newScene(t, database, right)
			s.Client = labelledOnly(t, s.Client)
			hosts := make([]*infrav1.IngotHost, tc.hosts)
			find := func(h *infrav1.IngotHost) {
				if h.Spec.BMC == nil {
					if err := s.Withdraw(t.Context(), h); err != nil {
						t.Fatal(err)
					}
					return
				}
				if found, err := s.Find(t.Context(), h, nil); err != nil || found.Message != "" {
					t.Fatal(found.Message, err)
				}
			}
			for i := range hosts {
				hosts[i] = s.host.DeepCopy()
				hosts[i].Name, hosts[i].UID = fmt.Sprint("h", i), types.UID(fmt.Sprint(i))
				hosts[i].Spec.BMC.CredentialsRef.Name = database.Name
				if err := s.Client.Create(t.Context(), hosts[i]); err != nil {
					t.Fatal(err)
				}
				find(hosts[i])
			}
			if tc.asCA {
				another := s.host.DeepCopy()
				another.Name, another.Spec.BMC.CABundleRef = "another", &infrav1.CABundleReference{Kind: infrav1.CABundleSecret, Name: database.Name}
				if err := s.Client.Create(t.Context(), another); err != nil {
					t.Fatal(err)
				}
			}
			for _, h := range hosts[:tc.corrected] { // by one kubectl apply
				h.Spec.BMC.CredentialsRef.Name = right.Name
				if tc.gone {
					h.Spec.BMC = nil
				}
				if err := s.Client.Update(t.Context(), h); err != nil {
					t.Fatal(err)
				}
			}
			for _, h := range hosts {
				find(h)
			}
			got := &corev1.Secret{}
			if err := s.Live.Get(t.Context(), client.ObjectKeyFromObject(database), got); err != nil {
				t.Fatal(err)
			}
			if isNamed := tc.corrected < tc.hosts || tc.asCA; isNamed != (len(got.Finalizers) > 0) {
				t.Errorf("finalizers %v", got.Finalizers)
			}
			if diff := cmp.Diff(tc.want, got.Labels, cmpopts.EquateEmpty()); diff != "" || len(got.OwnerReferences) != tc.wantOwners {
				t.Errorf("owners %+v, labels (-want +got):\n%s", got.OwnerReferences, diff)
			}
			want := tc.corrected
			if want > maxOwners || tc.gone {
				want = 0
			}
			if err := s.Live.Get(t.Context(), client.ObjectKeyFromObject(right), got); err != nil || len(got.OwnerReferences) != want {
				t.Errorf("owners of the right one %+v, %v", got.OwnerReferences, err)
			}
		})
	}
}

// labelledOnly has Secrets as the manager's cache has them: those with the label.
func labelledOnly(t *testing.T, c client.Client) client.Client {
	t.Helper()
	watched, ok := c.(client.WithWatch)
	if !ok {
		t.Fatalf("%T does not watch", c)
	}
	return interceptor.NewClient(watched, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, object, options...)
			if _, secret := object.(*corev1.Secret); !secret || err != nil {
				return err
			}
			if _, labelled := object.GetLabels()[infrav1.BMCCredentialsLabel]; !labelled {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
			}
			return nil
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, secrets := list.(*corev1.SecretList); secrets {
				options = append(options, client.HasLabels{infrav1.BMCCredentialsLabel})
			}
			return c.List(ctx, list, options...)
		},
	})
}
