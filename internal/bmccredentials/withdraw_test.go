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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A Secret that hosts named once, and that was corrected, is as it was before: it neither
// goes with them nor moves. Package inuse releases those that no host owns.
func TestSecretThatIsNamedNoMore(t *testing.T) {
	own := map[string]string{infrav1.BMCCredentialsDeleteLabel: ""}
	labelled := map[string]string{infrav1.BMCCredentialsDeleteLabel: "", infrav1.BMCCredentialsLabel: ""}
	ofMany := map[string]string{infrav1.BMCCredentialsDeleteLabel: "", infrav1.BMCCredentialsLabel: "", infrav1.BMCCredentialsSharedLabel: "", clusterctlv1.ClusterctlMoveLabel: ""}
	unasked := map[string]string{"app": "db"}
	shared := map[string]string{"app": "db", infrav1.BMCCredentialsLabel: "", infrav1.BMCCredentialsSharedLabel: "", clusterctlv1.ClusterctlMoveLabel: ""}
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
		"a site, all":                    {own, maxOwners + 3, maxOwners + 3, false, false, 0, ofMany},
		"a site, but for one":            {own, maxOwners + 3, maxOwners + 2, false, false, 0, ofMany},
		"nobody":                         {own, 2, 0, false, false, 2, labelled},
		"an application's":               {unasked, 1, 1, false, false, 0, shared},
		"a BMC that is gone":             {own, 1, 1, false, true, 0, own},
		"of a site, all BMCs are gone":   {own, maxOwners + 3, maxOwners + 3, false, true, 0, ofMany},
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
			_, isShared := tc.want[infrav1.BMCCredentialsSharedLabel]
			if isHeld := tc.corrected < tc.hosts || tc.asCA || isShared; isHeld != (len(got.Finalizers) > 0) {
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

// A released Secret has the labels that it had before a host named it.
func TestRelease(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "IngotHost", Name: "h1"}
	ours := func(more ...string) map[string]string {
		labels := map[string]string{"app": "db", infrav1.BMCCredentialsLabel: "", infrav1.BMCCredentialsSharedLabel: "", clusterctlv1.ClusterctlMoveLabel: ""}
		for _, value := range more {
			labels[infrav1.BMCCredentialsSharedLabel] = value
		}
		return labels
	}
	for name, tc := range map[string]struct {
		labels, want map[string]string
		owners       []metav1.OwnerReference
	}{
		"Ingot made it move":          {labels: ours(), want: map[string]string{"app": "db"}},
		"its creator made it move":    {labels: ours(movedByCreator), want: map[string]string{"app": "db", clusterctlv1.ClusterctlMoveLabel: ""}},
		"a host still owns it":        {labels: ours(), owners: []metav1.OwnerReference{owner}, want: ours()},
		"a host owned it and has not": {labels: map[string]string{infrav1.BMCCredentialsLabel: ""}, want: map[string]string{}},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: tc.labels, OwnerReferences: tc.owners, Finalizers: []string{infrav1.InUseFinalizer}}}
		Release(secret)
		if diff := cmp.Diff(tc.want, secret.Labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", name, diff)
		}
		if isHeld := len(secret.Finalizers) > 0; isHeld != (len(tc.owners) > 0) {
			t.Errorf("%s: finalizers %v", name, secret.Finalizers)
		}
	}
}

// A host looks only at the Secrets that it owns. With thousands of hosts, each with a Secret of its
// own, anything else takes quadratic time in each round of polls.
func TestWithdrawReadsOwnSecretsOnly(t *testing.T) {
	objects := []client.Object{}
	for i := range 50 {
		secret := credentials(secretKeys()...)
		secret.Name = fmt.Sprint("bmc-", i)
		LabelShared(secret)
		label(secret, infrav1.BMCCredentialsLabel)
		objects = append(objects, secret)
	}
	s := newScene(t, objects...)
	watched, ok := s.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T does not watch", s.Client)
	}
	lists := 0
	s.Client = interceptor.NewClient(watched, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			lists++
			return c.List(ctx, list, options...)
		},
	})
	if err := s.Withdraw(t.Context(), s.host); err != nil {
		t.Fatal(err)
	}
	if lists > 1 {
		t.Errorf("%d lists for one host and 50 Secrets of others, want 1", lists)
	}
}
