// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
)

// A pool that holds another address for a host than is recorded: a free host gets that
// one, and of one in use people are told, once each time that it is another.
func TestPoolHoldsAnother(t *testing.T) {
	const recorded = "192.0.2.40"
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "rack-a"}, Spec: infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24", Gateway: "192.0.2.1",
		AddressPoolRef: &infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "GlobalInClusterIPPool", Name: "pool"}}}
	for name, tc := range map[string]struct {
		free bool
		// gives are what the pool holds, one after the other; empty: it has not answered.
		gives []string
		told  []string
		lost  bool
	}{
		"the same":                {false, []string{recorded}, nil, false},
		"another":                 {false, []string{"192.0.2.41", "192.0.2.41"}, []string{"pool pool holds 192.0.2.41 for it"}, false},
		"another, and again":      {false, []string{"192.0.2.41", recorded, "192.0.2.41"}, []string{"holds 192.0.2.41", "holds 192.0.2.41"}, false},
		"another, twice":          {false, []string{"192.0.2.41", "192.0.2.42"}, []string{"holds 192.0.2.41", "holds 192.0.2.42"}, false},
		"the gateway's":           {false, []string{"192.0.2.1"}, []string{"pool pool assigned 192.0.2.1"}, false},
		"one of another subnet":   {false, []string{"198.51.100.1"}, []string{`pool pool assigned "198.51.100.1"`}, false},
		"no answer":               {false, []string{""}, nil, false},
		"no answer, meanwhile":    {false, []string{"192.0.2.41", "", "192.0.2.41"}, []string{"holds 192.0.2.41"}, false},
		"another, of a free host": {true, []string{"192.0.2.41"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			host := using("metal", "h")
			host.UID = "h"
			if tc.free {
				host.Spec.Claim = nil
			}
			facts := &infrav1.IngotHardware{ObjectMeta: named("metal", "h")}
			facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: network.Name, MAC: host.Spec.BootMACAddress, IP: recorded}
			claim := &ipamv1.IPAddressClaim{ObjectMeta: named("metal", pool.ClaimName("h", network.Name))}
			claim.Spec.PoolRef = ipamv1.IPPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "GlobalInClusterIPPool", Name: "pool"}
			claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(host, infrav1.GroupVersion.WithKind("IngotHost"))}
			given := &ipamv1.IPAddress{ObjectMeta: named("metal", claim.Name)}
			given.Spec = ipamv1.IPAddressSpec{Prefix: ptr.To[int32](24)}
			b := newAllocator(t, host, facts, claim, given)
			var told []string
			b.Warn = func(_ *infrav1.IngotHost, reason, message string) {
				if reason != infrav1.ReasonAddressClaimLost || !strings.Contains(message, "keeps "+recorded) {
					t.Errorf("%s: %s", reason, message)
				}
				told = append(told, message)
			}
			for _, address := range tc.gives {
				claim.Status.AddressRef.Name, given.Spec.Address = "", address
				if address != "" {
					claim.Status.AddressRef.Name = given.Name
				}
				for _, err := range []error{b.Client.Update(t.Context(), given), b.Client.Update(t.Context(), claim)} {
					if err != nil {
						t.Fatal(err)
					}
				}
				held, err := b.Observe(t.Context(), View{Host: host, Hardware: facts, Network: network})
				if err != nil || held.Lost != tc.lost {
					t.Fatalf("lost %t, %v", held.Lost, err)
				}
			}
			if len(told) != len(tc.told) {
				t.Fatalf("told %q, want %q", told, tc.told)
			}
			for i := range told {
				if !strings.Contains(told[i], tc.told[i]) {
					t.Errorf("told %q, want %q", told[i], tc.told[i])
				}
			}
		})
	}
}

// In a namespace that is being deleted no claim can be made, and a free host keeps the address
// that it has: with it, it is cleaned (I23).
func TestPoolInATerminatingNamespace(t *testing.T) {
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "rack-a"}, Spec: infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24", Gateway: "192.0.2.1",
		AddressPoolRef: &infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "GlobalInClusterIPPool", Name: "pool"}}}
	host := using("metal", "h")
	host.Spec.Claim = nil
	facts := &infrav1.IngotHardware{ObjectMeta: named("metal", "h")}
	facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: network.Name, MAC: host.Spec.BootMACAddress, IP: "192.0.2.40"}
	b := newAllocator(t, host, facts)
	api, ok := b.Client.(client.WithWatch)
	if !ok {
		t.Fatalf("%T does not watch", b.Client)
	}
	b.Client = interceptor.NewClient(api, interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
		refused := apierrors.NewForbidden(schema.GroupResource{Group: ipamv1.GroupVersion.Group, Resource: "ipaddressclaims"}, object.GetName(), errors.New("unable to create new content in namespace metal because it is being terminated"))
		refused.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		return refused
	}})
	held, err := b.Observe(t.Context(), View{Host: host, Hardware: facts, Network: network})
	if err != nil || held.Lost || !held.Recorded {
		t.Errorf("lost %t, recorded %t, %v; want the recorded address to be kept", held.Lost, held.Recorded, err)
	}
}
