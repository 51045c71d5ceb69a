// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/reservation"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/test/site"
)

// promisedHosts is what the Cluster of the yard was promised: a host for the machine that
// it has, and two that are free.
const promisedHosts = 1 + 2

// promise keeps hosts for the Cluster, as the runtime extension writes it, for hours yet.
func (y *yard) promise(p *plane) {
	y.t.Helper()
	p.create(promiseTo("c1", promisedHosts))
	p.until("a promise kept", func() string { return kept(p) })
}

func promiseTo(clusterName string, hosts int32) *infrav1.IngotReservation {
	return &infrav1.IngotReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName},
		Spec: infrav1.IngotReservationSpec{
			State: infrav1.ReservationReserved, RequestTime: past(), ExpirationTime: metav1.NewTime(past().Add(24 * time.Hour)),
			Groups: []infrav1.ReservedGroup{{Name: "md-0", Count: hosts, Ethernets: []infrav1.ReservedEthernet{
				{Name: "uplink0", NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly}},
			}}},
		},
	}
}

// kept says what is missing of the promise: it belongs to the Cluster that there is, its
// status counts the machine that has its host, and its hosts are there.
func kept(p *plane) string {
	promised, owner := &infrav1.IngotReservation{}, &clusterv1.Cluster{}
	if !p.get(promised, "c1") || !p.get(owner, "c1") {
		return "no reservation, or no Cluster"
	}
	owned := len(promised.OwnerReferences) == 1 && promised.OwnerReferences[0].UID == owner.UID
	counts := []int32{ptr.Deref(promised.Status.Reserved, -1), ptr.Deref(promised.Status.Claimed, -1), ptr.Deref(promised.Status.Outstanding, -1)}
	ready := conditions.Get(promised, infrav1.ReadyCondition)
	if !owned || !cmp.Equal(counts, []int32{promisedHosts, 1, promisedHosts - 1}) || ready == nil || ready.Reason != infrav1.ReasonReservationSatisfied {
		return fmt.Sprintf("owned %v, counts %v, Ready %+v", owned, counts, ready)
	}
	return ""
}

// promiseHolds: where the Cluster has arrived its promise is what it was, to the second
// that it ends, is shown anew, and is honoured: another Cluster is told that the hosts are
// kept, and the same one that it has them.
func (s *story) promiseHolds() {
	s.t.Helper()
	s.target.until("a promise kept", func() string { return kept(s.target) })
	is := &infrav1.IngotReservation{}
	s.target.get(is, "c1")
	if diff := cmp.Diff(s.promised.Spec, is.Spec); diff != "" {
		s.t.Errorf("what was promised (-before +after):\n%s", diff)
	}
	if left := time.Until(is.Spec.ExpirationTime.Time); left < 22*time.Hour || left > 23*time.Hour {
		s.t.Errorf("the promise ends in %s", left)
	}
	book := &reservation.Planner{Client: s.target.client, Live: s.target.client, Clock: clock.RealClock{}}
	more, err := book.Plan(s.t.Context(), allocation.RequestOf(promiseTo("rival", 100)))
	if err != nil || len(more.Missing) != 1 {
		s.t.Fatalf("more hosts than there are: %+v, %v", more, err)
	}
	one := int32(more.Missing[0].Free) - (promisedHosts - 1) + 1 // more than is left
	plan, err := book.Reserve(s.t.Context(), "a-uid", allocation.RequestOf(promiseTo("rival", one)))
	if err != nil || plan.Satisfied || plan.Missing[0].Missing != 1 || !strings.Contains(plan.Message, "reserved for other Clusters") {
		s.t.Errorf("another Cluster hears %+v, %v", plan, err)
	}
	if s.target.get(&infrav1.IngotReservation{}, "rival") {
		s.t.Error("another Cluster was promised hosts that there are not")
	}
	if plan, err := book.Plan(s.t.Context(), allocation.RequestOf(is)); err != nil || !plan.Satisfied {
		s.t.Errorf("the Cluster itself hears %+v, %v", plan, err)
	}
}

// promise keeps more hosts for the cluster than it will ever have on this journey, so that
// the promise is not met by the way.
func (j *journey) promise() {
	j.t.Helper()
	promised := promiseTo(j.cluster.Name, 3)
	promised.Namespace, promised.Spec.Groups[0].Name = j.cluster.Namespace, j.cluster.Name+"-md-0"
	j.check(j.from.Client.Create(j.t.Context(), promised))
	j.promised = &infrav1.IngotReservation{}
	j.from.Await(j.t, "a promise", promiseShown(j.from, j.cluster, j.promised))
}

// promiseShown says what is missing of a site's promise to a cluster: the Cluster that is
// there owns it and its status was written. into takes it.
func promiseShown(s *site.Site, c site.Cluster, into *infrav1.IngotReservation) site.Missing {
	return func(ctx context.Context) (string, error) {
		promised, owner := &infrav1.IngotReservation{}, &clusterv1.Cluster{}
		key := client.ObjectKey{Namespace: c.Namespace, Name: c.Name}
		if err := s.Client.Get(ctx, key, promised); err != nil {
			return "no reservation", client.IgnoreNotFound(err)
		}
		if err := s.Client.Get(ctx, key, owner); err != nil {
			return "no Cluster", client.IgnoreNotFound(err)
		}
		if len(promised.OwnerReferences) != 1 || promised.OwnerReferences[0].UID != owner.UID || conditions.Get(promised, infrav1.ReadyCondition) == nil {
			return fmt.Sprintf("owners %+v, status %+v", promised.OwnerReferences, promised.Status), nil
		}
		*into = *promised
		return "", nil
	}
}

// promiseArrived: the promise came with its Cluster, the same as it was.
func (j *journey) promiseArrived() {
	j.t.Helper()
	is := &infrav1.IngotReservation{}
	j.to.Await(j.t, "the promise on the target", promiseShown(j.to, j.cluster, is))
	if diff := cmp.Diff(j.promised.Spec, is.Spec); diff != "" {
		j.t.Errorf("what was promised (-before +after):\n%s", diff)
	}
	if left := j.from.Kubectl(j.t, "get", "ingotreservations", "--output=name"); left != "" {
		j.t.Errorf("left behind on the source: %s", left)
	}
}
