// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A Secret that hosts named once, and that was corrected, is as it was before: it neither
// goes with them nor moves.
func TestSecretThatIsNamedNoMore(t *testing.T) {
	own := map[string]string{"app": "db"}
	labelled := map[string]string{"app": "db", infrav1.BMCCredentialsLabel: ""}
	moves := map[string]string{"app": "db", clusterctlv1.ClusterctlMoveLabel: ""}
	for name, tc := range map[string]struct {
		labels     map[string]string
		hosts      int  // that name the Secret
		corrected  int  // of them
		asCA       bool // of another host
		wantOwners int
		want       map[string]string
	}{
		"one":                            {own, 1, 1, false, 0, own},
		"one, and another's CA is there": {own, 1, 1, true, 0, labelled},
		"one of two":                     {own, 2, 1, false, 1, labelled},
		"both":                           {own, 2, 2, false, 0, own},
		"nobody":                         {own, 2, 0, false, 2, labelled},
		"a move that is not ours":        {moves, 1, 1, false, 0, moves},
	} {
		t.Run(name, func(t *testing.T) {
			database, right := credentials(secretKeys()...), credentials(secretKeys()...)
			database.Name, database.Labels = "database", tc.labels
			s := newScene(t, database, right)
			hosts := make([]*infrav1.IngotHost, tc.hosts)
			find := func(h *infrav1.IngotHost) {
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
			for _, h := range hosts[:tc.corrected] {
				h.Spec.BMC.CredentialsRef.Name = right.Name
				if err := s.Client.Update(t.Context(), h); err != nil {
					t.Fatal(err)
				}
				find(h)
			}
			got := &corev1.Secret{}
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(database), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Labels, cmpopts.EquateEmpty()); diff != "" || len(got.OwnerReferences) != tc.wantOwners {
				t.Errorf("owners %+v, labels (-want +got):\n%s", got.OwnerReferences, diff)
			}
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(right), got); err != nil || len(got.OwnerReferences) != tc.corrected {
				t.Errorf("owners of the right one %+v, %v", got.OwnerReferences, err)
			}
		})
	}
}
