// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// DefaultExpiry is how long a promise lasts that is not met: long enough for a control
// plane that is installed server by server, short enough that a Cluster which never
// comes does not keep a rack from others for a week.
const DefaultExpiry = 24 * time.Hour

// renewals is by how much shorter than the first the later promises to one Cluster are,
// for the same hosts; they come after a rest as long as they are, in which the hosts are
// anybody's.
const renewals = 4

// perMachine is how long the promise of an upgrade lasts at least for each machine, which
// are replaced one by one.
const perMachine = time.Hour

// counting is how many promises are counted at once: each holds a list of all machines.
const counting = 2

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
	// Shelves of Client's cache; nil: its hosts are listed for each question.
	Shelves *Shelves
	// WatchFilterValue is the label of the hosts that there are to promise (M41); empty: all.
	WatchFilterValue string

	once  sync.Once
	turns chan struct{}
}

// Plan says what Promise would, by the cache, and writes nothing.
func (b *Book) Plan(ctx context.Context, request allocation.PromiseRequest) (allocation.PromisePlan, error) {
	stock, err := b.Stock(ctx, request.Namespace)
	if err != nil {
		return allocation.PromisePlan{}, err
	}
	return allocation.PlanPromise(request, stock)
}

// Promise promises all hosts of the request to the Cluster with the UID, or none: then
// the plan says what is missing. Asked again, it gives the same answer and writes
// nothing; asked for something else, it promises that instead. Where it cannot, what a
// person promised stands again, and for the sake of an upgrade nothing is taken back. A
// promise that ended by time is not made again at once: the hosts are left to others for a
// while, which the plan says. request.Surge is not promised (use Plan).
//
// It fails with ErrContended, which asking again resolves, with ErrSelectorInvalid of
// inventory, and when the API server does.
func (b *Book) Promise(ctx context.Context, uid types.UID, request allocation.PromiseRequest) (allocation.PromisePlan, error) {
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
			if err := restoreOrDelete(ctx, b.Client, own, nil); err != nil && !retry(err) {
				return plan, fmt.Errorf("end what an earlier Cluster %s was promised: %w", own.Name, err)
			}
			continue
		}
		if answer, ok := b.answered(own, plan); ok {
			return answer, nil
		}
		asked, err := b.ask(ctx, own, uid, request, plan.Reservation)
		if retry(err) {
			continue
		}
		if err != nil {
			return plan, err
		}
		var done bool
		if plan, done, err = b.decideInTurn(ctx, asked, request); err != nil || done {
			return plan, err
		}
	}
	return plan, fmt.Errorf("promise hosts to Cluster %s: %w", request.ClusterName, ErrContended)
}

// answered says what can be said without writing: what stands is promised, and what the
// cache says no to is not asked for.
func (b *Book) answered(own *infrav1.IngotReservation, plan allocation.PromisePlan) (allocation.PromisePlan, bool) {
	if own == nil {
		return plan, !plan.Satisfied
	}
	same := sameDemand(own.Spec, plan.Reservation)
	switch {
	case own.Spec.State == infrav1.ReservationPromised && b.stands(own) && same:
		plan.Satisfied, plan.Missing, plan.Message = true, nil, ""
		return plan, true
	case !plan.Satisfied && (plan.Reservation.Purpose == infrav1.ReservationUpgrade || byHand(own.Spec) && b.stands(own)):
		return plan, true // what it has stands
	case !same || b.stands(own):
		return plan, false
	}
	if until := own.Spec.ExpiresAt.Add(b.renewal()); b.Clock.Now().Before(until) && plan.Satisfied {
		plan.Satisfied = false
		plan.Message = fmt.Sprintf("the hosts that were promised to the Cluster were not claimed by %s, and are left to others until %s; to ask for them at once: kubectl delete ires -n %s %s",
			own.Spec.ExpiresAt.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339), own.Namespace, own.Name)
	}
	return plan, !plan.Satisfied // the expired one stays, to tell that it was not the first
}

// Finish takes back what a Cluster was promised for its upgrade, which is over; what a
// person had promised it before stands again. A promise that the cache does not have, of an
// upgrade that took minutes at least, there is not.
func (b *Book) Finish(ctx context.Context, uid types.UID, cluster types.NamespacedName) error {
	if err := b.Client.Get(ctx, cluster, &infrav1.IngotReservation{}); err != nil {
		return client.IgnoreNotFound(err)
	}
	for range attempts {
		own, err := b.own(ctx, allocation.PromiseRequest{Namespace: cluster.Namespace, ClusterName: cluster.Name})
		if err != nil || own == nil || own.Spec.Purpose != infrav1.ReservationUpgrade || ownedByAnother(own, uid) {
			return err
		}
		err = restoreOrDelete(ctx, b.Client, own, formerly(own, b.Clock.Now(), infrav1.ByHandAnnotation))
		if !retry(err) {
			return err
		}
	}
	return fmt.Errorf("end the promise of the upgrade of Cluster %s: %w", cluster.Name, ErrContended)
}

// own reads the reservation of the Cluster live; nil: it has none.
func (b *Book) own(ctx context.Context, request allocation.PromiseRequest) (*infrav1.IngotReservation, error) {
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
func (b *Book) ask(ctx context.Context, own *infrav1.IngotReservation, uid types.UID, request allocation.PromiseRequest, spec infrav1.IngotReservationSpec) (*infrav1.IngotReservation, error) {
	now := metav1.NewTime(b.Clock.Now())
	spec.State, spec.AskedAt, spec.ExpiresAt = infrav1.ReservationAsked, now, metav1.NewTime(now.Add(b.lasts(own, spec)))
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
	remember(asked, own, b.Clock.Now())
	return asked, b.Client.Update(ctx, asked)
}

// decideInTurn decides, not many at once.
func (b *Book) decideInTurn(ctx context.Context, asked *infrav1.IngotReservation, request allocation.PromiseRequest) (allocation.PromisePlan, bool, error) {
	b.once.Do(func() { b.turns = make(chan struct{}, counting) })
	select {
	case b.turns <- struct{}{}:
	case <-ctx.Done():
		return allocation.PromisePlan{}, false, fmt.Errorf("wait to count hosts: %w", ctx.Err())
	}
	defer func() { <-b.turns }()
	return b.decide(ctx, asked, request)
}

// decide counts the hosts, and promises them or withdraws the request. Not done: somebody
// else changed what was asked, and the whole is to be looked at again.
func (b *Book) decide(ctx context.Context, asked *infrav1.IngotReservation, request allocation.PromiseRequest) (allocation.PromisePlan, bool, error) {
	stock, err := b.readStockLive(ctx, request.Namespace)
	if err != nil {
		return allocation.PromisePlan{}, false, err
	}
	plan, err := allocation.PlanPromise(request, stock)
	if err != nil {
		return plan, false, err
	}
	if !plan.Satisfied {
		if weaker := b.weaker(asked, stock); len(weaker) > 0 {
			return b.overrule(ctx, attempt{asked: asked, request: request, stock: stock, plan: plan}, weaker)
		}
		return plan, true, b.withdraw(ctx, asked)
	}
	promised := asked.DeepCopy()
	promised.Spec.State = infrav1.ReservationPromised
	settled(promised)
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
func (b *Book) overrule(ctx context.Context, a attempt, weaker map[string]*infrav1.IngotReservation) (allocation.PromisePlan, bool, error) {
	var stronger []infrav1.IngotReservation
	for _, r := range a.stock.Reservations {
		if weaker[r.Name] == nil {
			stronger = append(stronger, r)
		}
	}
	a.stock.Reservations = stronger
	without, err := allocation.PlanPromise(a.request, a.stock)
	if err != nil {
		return a.plan, false, err
	}
	if !without.Satisfied {
		return a.plan, true, b.withdraw(ctx, a.asked)
	}
	for _, r := range weaker {
		if err := b.withdraw(ctx, r); err != nil {
			return a.plan, false, err
		}
	}
	return without, false, nil // counted again, since one of them may have been promised just before
}

// attempt is one that others are in the way of.
type attempt struct {
	asked   *infrav1.IngotReservation
	request allocation.PromiseRequest
	stock   allocation.Stock
	plan    allocation.PromisePlan
}

// weaker are the others that were asked for and must give way to this one: those that
// were asked later (of two at once, the later name), and those that whoever asked has
// forgotten.
func (b *Book) weaker(asked *infrav1.IngotReservation, stock allocation.Stock) map[string]*infrav1.IngotReservation {
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

// withdraw ends what was asked for; what it took the place of stands again.
func (b *Book) withdraw(ctx context.Context, r *infrav1.IngotReservation) error {
	return withdraw(ctx, b.Client, r, b.Clock.Now())
}

func (b *Book) stands(r *infrav1.IngotReservation) bool { return allocation.Stands(r, b.Clock.Now()) }

func (b *Book) expiry() time.Duration {
	if b.Expiry > 0 {
		return b.Expiry
	}
	return DefaultExpiry
}

// renewal is how long a promise lasts that is not the first, and the rest before it.
func (b *Book) renewal() time.Duration { return b.expiry() / renewals }

// lasts is how long a promise is made for.
func (b *Book) lasts(own *infrav1.IngotReservation, spec infrav1.IngotReservationSpec) time.Duration {
	if spec.Purpose == infrav1.ReservationUpgrade {
		machines := 0
		for _, g := range spec.Groups {
			machines += int(g.Count)
		}
		return max(b.expiry(), time.Duration(machines)*perMachine)
	}
	if own != nil && !b.stands(own) && sameDemand(own.Spec, spec) {
		return b.renewal()
	}
	return b.expiry()
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
