// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// DefaultExpiry is how long a promise lasts that is not met: long enough for a control
// plane that is installed server by server, short enough that a Cluster which never
// comes does not keep a rack from others for a week.
const DefaultExpiry = 24 * time.Hour

// staleAfter is how long somebody may take from asking to the promise. What was asked
// for longer ago is withdrawn by whoever needs the hosts.
const staleAfter = time.Minute

// attempts bounds how often a promise is tried that others get in the way of.
const attempts = 5

// ErrContended: others asked for the same hosts at the same time; ask again.
var ErrContended = errors.New("hosts are being promised to several Clusters at this moment")

// Book promises hosts to Clusters, from any number of replicas at once. The zero value
// of Expiry means DefaultExpiry.
type Book struct {
	// Client reads from a cache and writes.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Clock  clock.PassiveClock
	Expiry time.Duration
}

// Plan says what Promise would, by the cache, and writes nothing.
func (b *Book) Plan(ctx context.Context, request inventory.PromiseRequest) (inventory.PromisePlan, error) {
	stock, err := b.stock(ctx, b.Client, request.Namespace)
	if err != nil {
		return inventory.PromisePlan{}, err
	}
	return inventory.PlanPromise(request, stock)
}

// Promise promises all hosts of the request to the Cluster with the UID, or none: then
// the plan says what is missing. Asked again, it gives the same answer and writes
// nothing; asked for something else, it promises that instead. request.Surge is not
// promised (use Plan).
//
// It fails with ErrContended, which asking again resolves, with ErrSelectorInvalid of
// inventory, and when the API server does.
func (b *Book) Promise(ctx context.Context, uid types.UID, request inventory.PromiseRequest) (inventory.PromisePlan, error) {
	plan, err := b.Plan(ctx, request)
	if err != nil || len(plan.Reservation.Groups) == 0 {
		return plan, err
	}
	for range attempts {
		own, err := b.own(ctx, request)
		if err != nil {
			return plan, err
		}
		if own != nil && ownedByAnother(own, uid) {
			// Of an earlier Cluster of that name: the garbage collector is about to take it.
			if err := b.withdraw(ctx, own); err != nil {
				return plan, err
			}
			continue
		}
		if own != nil && own.Spec.State == infrav1.ReservationPromised && b.stands(own) && sameDemand(own.Spec, plan.Reservation) {
			plan.Satisfied, plan.Missing, plan.Message = true, nil, ""
			return plan, nil
		}
		if own == nil && !plan.Satisfied {
			return plan, nil // the cache is enough to say no: nothing is written
		}
		asked, err := b.ask(ctx, own, uid, request, plan.Reservation)
		if retry(err) {
			continue
		}
		if err != nil {
			return plan, err
		}
		done := false
		if plan, done, err = b.decide(ctx, asked, request); err != nil || done {
			return plan, err
		}
	}
	return plan, fmt.Errorf("promise hosts to Cluster %s: %w", request.ClusterName, ErrContended)
}

// Withdraw takes back what the Cluster was promised, if anything.
func (b *Book) Withdraw(ctx context.Context, cluster types.NamespacedName) error {
	r := &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name}}
	if err := b.Client.Delete(ctx, r); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("withdraw the reservation of Cluster %s: %w", cluster.Name, err)
	}
	return nil
}

// own reads the reservation of the Cluster live; nil: it has none.
func (b *Book) own(ctx context.Context, request inventory.PromiseRequest) (*infrav1.IngotReservation, error) {
	own := &infrav1.IngotReservation{}
	err := b.Live.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.ClusterName}, own)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reservation of Cluster %s: %w", request.ClusterName, err)
	}
	return own, nil
}

// ask writes down what is asked for, before the hosts are counted: whoever claims or
// asks from now on sees it.
func (b *Book) ask(ctx context.Context, own *infrav1.IngotReservation, uid types.UID, request inventory.PromiseRequest, spec infrav1.IngotReservationSpec) (*infrav1.IngotReservation, error) {
	now := metav1.NewTime(b.Clock.Now())
	spec.State, spec.AskedAt, spec.ExpiresAt = infrav1.ReservationAsked, now, metav1.NewTime(now.Add(b.expiry()))
	if own == nil {
		asked := &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{
			Namespace: request.Namespace, Name: request.ClusterName,
			Labels: map[string]string{clusterv1.ClusterNameLabel: request.ClusterName},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: clusterv1.ClusterKind, Name: request.ClusterName, UID: uid,
			}},
		}, Spec: spec}
		return asked, b.Client.Create(ctx, asked)
	}
	if own.Spec.State == infrav1.ReservationAsked && sameDemand(own.Spec, spec) && b.stands(own) {
		return own, nil // another replica is at it, or was: whoever is first decides
	}
	asked := own.DeepCopy()
	asked.Spec = spec
	return asked, b.Client.Update(ctx, asked)
}

// decide counts the hosts live, and promises them or withdraws the request. Not done:
// somebody else changed what was asked, and the whole is to be looked at again.
func (b *Book) decide(ctx context.Context, asked *infrav1.IngotReservation, request inventory.PromiseRequest) (inventory.PromisePlan, bool, error) {
	stock, err := b.stock(ctx, b.Live, request.Namespace)
	if err != nil {
		return inventory.PromisePlan{}, false, err
	}
	plan, err := inventory.PlanPromise(request, stock)
	if err != nil {
		return plan, false, err
	}
	if !plan.Satisfied {
		if weaker := b.weaker(asked, stock); len(weaker) > 0 {
			return b.overrule(ctx, weaker, asked, request, stock, plan)
		}
		return plan, true, b.withdraw(ctx, asked)
	}
	promised := asked.DeepCopy()
	promised.Spec.State = infrav1.ReservationPromised
	err = b.Client.Update(ctx, promised) // on the version that was asked with: it was not withdrawn
	if retry(err) {
		return plan, false, nil
	}
	if err != nil {
		return plan, false, fmt.Errorf("promise hosts to Cluster %s: %w", request.ClusterName, err)
	}
	return plan, true, nil
}

// overrule withdraws what others ask for at the same time, if that makes room.
func (b *Book) overrule(ctx context.Context, weaker map[string]*infrav1.IngotReservation, asked *infrav1.IngotReservation, request inventory.PromiseRequest, stock inventory.Stock, plan inventory.PromisePlan) (inventory.PromisePlan, bool, error) {
	var stronger []infrav1.IngotReservation
	for _, r := range stock.Reservations {
		if weaker[r.Name] == nil {
			stronger = append(stronger, r)
		}
	}
	stock.Reservations = stronger
	without, err := inventory.PlanPromise(request, stock)
	if err != nil {
		return plan, false, err
	}
	if !without.Satisfied {
		return plan, true, b.withdraw(ctx, asked)
	}
	for _, r := range weaker {
		if err := b.withdraw(ctx, r); err != nil {
			return plan, false, err
		}
	}
	return without, false, nil // counted again, since one of them may have been promised just before
}

// weaker are the others that were asked for and must give way to this one: those that
// were asked later (of two at once, the later name), and those that whoever asked has
// forgotten.
func (b *Book) weaker(asked *infrav1.IngotReservation, stock inventory.Stock) map[string]*infrav1.IngotReservation {
	weaker := map[string]*infrav1.IngotReservation{}
	for i := range stock.Reservations {
		r := &stock.Reservations[i]
		if r.Name == asked.Name || r.Spec.State != infrav1.ReservationAsked {
			continue
		}
		later := asked.Spec.AskedAt.Time.Compare(r.Spec.AskedAt.Time)
		if later < 0 || later == 0 && asked.Name < r.Name || stale(r, b.Clock.Now()) {
			weaker[r.Name] = r
		}
	}
	return weaker
}

// stale says whether the one who asked has had time enough.
func stale(r *infrav1.IngotReservation, now time.Time) bool {
	return r.Spec.State == infrav1.ReservationAsked && now.Sub(r.Spec.AskedAt.Time) > staleAfter
}

// withdraw deletes what was asked for, unless it has changed: then it was promised, or
// asked for anew.
func (b *Book) withdraw(ctx context.Context, r *infrav1.IngotReservation) error {
	return withdraw(ctx, b.Client, r)
}

func withdraw(ctx context.Context, c client.Client, r *infrav1.IngotReservation) error {
	err := c.Delete(ctx, r, client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion})
	if err != nil && !retry(err) {
		return fmt.Errorf("withdraw what Cluster %s asked for: %w", r.Name, err)
	}
	return nil
}

func (b *Book) stock(ctx context.Context, reader client.Reader, namespace string) (inventory.Stock, error) {
	return readStock(ctx, reader, namespace, b.Clock.Now())
}

func (b *Book) stands(r *infrav1.IngotReservation) bool { return inventory.Stands(r, b.Clock.Now()) }

func (b *Book) expiry() time.Duration {
	if b.Expiry > 0 {
		return b.Expiry
	}
	return DefaultExpiry
}

// ownedByAnother says whether the reservation belongs to a Cluster of another UID.
func ownedByAnother(r *infrav1.IngotReservation, uid types.UID) bool {
	for _, owner := range r.OwnerReferences {
		if owner.Kind == clusterv1.ClusterKind && owner.UID != uid {
			return true
		}
	}
	return false
}

// sameDemand says whether two reservations keep the same hosts.
func sameDemand(a, b infrav1.IngotReservationSpec) bool {
	for _, spec := range []*infrav1.IngotReservationSpec{&a, &b} {
		spec.State, spec.AskedAt, spec.ExpiresAt = "", metav1.Time{}, metav1.Time{}
	}
	return equality.Semantic.DeepEqual(a, b)
}

// retry says whether somebody else was faster.
func retry(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}
