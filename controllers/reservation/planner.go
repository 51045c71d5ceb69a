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

// Planner promises hosts to Clusters, from any number of replicas at once. The zero value
// of Expiry means DefaultExpiry.
type Planner struct {
	// Client reads from a cache and writes.
	Client client.Client
	// Live reads from the API server.
	Live   client.Reader
	Clock  clock.PassiveClock
	Expiry time.Duration
	// Hosts of Client's cache; nil: they are listed for each question.
	Hosts *HostCache
	// WatchFilterValue is the label of the hosts that there are to promise (M41); empty: all.
	WatchFilterValue string

	once  sync.Once
	turns chan struct{}
}

// Plan says what Promise would, by the cache, and writes nothing.
func (p *Planner) Plan(ctx context.Context, request allocation.PromiseRequest) (allocation.PromisePlan, error) {
	snapshot, err := p.Snapshot(ctx, request.Namespace)
	if err != nil {
		return allocation.PromisePlan{}, err
	}
	return allocation.PlanPromise(request, snapshot)
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
func (p *Planner) Promise(ctx context.Context, uid types.UID, request allocation.PromiseRequest) (allocation.PromisePlan, error) {
	plan, err := p.Plan(ctx, request)
	if err != nil || len(plan.Reservation.Groups) == 0 {
		return plan, err
	}
	for range attempts {
		own, err := p.own(ctx, request)
		if err != nil {
			return plan, err
		}
		if own != nil && ownedByAnother(own, uid) {
			// Of an earlier Cluster of that name: the garbage collector is about to take it.
			if err := restoreOrDelete(ctx, p.Client, own, nil); err != nil && !retry(err) {
				return plan, fmt.Errorf("end what an earlier Cluster %s was promised: %w", own.Name, err)
			}
			continue
		}
		if answer, ok := p.answered(own, plan); ok {
			return answer, nil
		}
		asked, err := p.ask(ctx, own, uid, request, plan.Reservation)
		if retry(err) {
			continue
		}
		if err != nil {
			return plan, err
		}
		var done bool
		if plan, done, err = p.decideInTurn(ctx, asked, request); err != nil || done {
			return plan, err
		}
	}
	return plan, fmt.Errorf("promise hosts to Cluster %s: %w", request.ClusterName, ErrContended)
}

// answered says what can be said without writing: what stands is promised, and what the
// cache says no to is not asked for.
func (p *Planner) answered(own *infrav1.IngotReservation, plan allocation.PromisePlan) (allocation.PromisePlan, bool) {
	if own == nil {
		return plan, !plan.Satisfied
	}
	same := sameDemand(own.Spec, plan.Reservation)
	switch {
	case own.Spec.State == infrav1.ReservationPromised && p.stands(own) && same:
		plan.Satisfied, plan.Missing, plan.Message = true, nil, ""
		return plan, true
	case !plan.Satisfied && (plan.Reservation.Purpose == infrav1.ReservationUpgrade || byHand(own.Spec) && p.stands(own)):
		return plan, true // what it has stands
	case !same || p.stands(own):
		return plan, false
	}
	if until := own.Spec.ExpiresAt.Add(p.renewal()); p.Clock.Now().Before(until) && plan.Satisfied {
		plan.Satisfied = false
		plan.Message = fmt.Sprintf("the hosts that were promised to the Cluster were not claimed by %s, and are left to others until %s; to ask for them at once: kubectl delete ires -n %s %s",
			own.Spec.ExpiresAt.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339), own.Namespace, own.Name)
	}
	return plan, !plan.Satisfied // the expired one stays, to tell that it was not the first
}

// Finish takes back what a Cluster was promised for its upgrade, which is over; what a
// person had promised it before stands again. A promise that the cache does not have, of an
// upgrade that took minutes at least, there is not.
func (p *Planner) Finish(ctx context.Context, uid types.UID, cluster types.NamespacedName) error {
	if err := p.Client.Get(ctx, cluster, &infrav1.IngotReservation{}); err != nil {
		return client.IgnoreNotFound(err)
	}
	for range attempts {
		own, err := p.own(ctx, allocation.PromiseRequest{Namespace: cluster.Namespace, ClusterName: cluster.Name})
		if err != nil || own == nil || own.Spec.Purpose != infrav1.ReservationUpgrade || ownedByAnother(own, uid) {
			return err
		}
		err = restoreOrDelete(ctx, p.Client, own, rollback(own, p.Clock.Now(), infrav1.ByHandAnnotation))
		if !retry(err) {
			return err
		}
	}
	return fmt.Errorf("end the promise of the upgrade of Cluster %s: %w", cluster.Name, ErrContended)
}

// own reads the reservation of the Cluster live; nil: it has none.
func (p *Planner) own(ctx context.Context, request allocation.PromiseRequest) (*infrav1.IngotReservation, error) {
	own := &infrav1.IngotReservation{}
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.ClusterName}, own)
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
func (p *Planner) ask(ctx context.Context, own *infrav1.IngotReservation, uid types.UID, request allocation.PromiseRequest, spec infrav1.IngotReservationSpec) (*infrav1.IngotReservation, error) {
	now := metav1.NewTime(p.Clock.Now())
	spec.State, spec.AskedAt, spec.ExpiresAt = infrav1.ReservationAsked, now, metav1.NewTime(now.Add(p.lasts(own, spec)))
	if own == nil {
		asked := &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{
			Namespace: request.Namespace, Name: request.ClusterName,
			Labels: map[string]string{clusterv1.ClusterNameLabel: request.ClusterName},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: clusterv1.ClusterKind, Name: request.ClusterName, UID: uid,
			}},
		}, Spec: spec}
		return asked, p.Client.Create(ctx, asked)
	}
	if own.Spec.State == infrav1.ReservationAsked && sameDemand(own.Spec, spec) && p.stands(own) {
		return own, nil // another replica is at it, or was: whoever is first decides
	}
	asked := own.DeepCopy()
	asked.Spec = spec
	remember(asked, own, p.Clock.Now())
	return asked, p.Client.Update(ctx, asked)
}

// decideInTurn decides, not many at once.
func (p *Planner) decideInTurn(ctx context.Context, asked *infrav1.IngotReservation, request allocation.PromiseRequest) (allocation.PromisePlan, bool, error) {
	p.once.Do(func() { p.turns = make(chan struct{}, counting) })
	select {
	case p.turns <- struct{}{}:
	case <-ctx.Done():
		return allocation.PromisePlan{}, false, fmt.Errorf("wait to count hosts: %w", ctx.Err())
	}
	defer func() { <-p.turns }()
	return p.decide(ctx, asked, request)
}

// decide counts the hosts, and promises them or withdraws the request. Not done: somebody
// else changed what was asked, and the whole is to be looked at again.
func (p *Planner) decide(ctx context.Context, asked *infrav1.IngotReservation, request allocation.PromiseRequest) (allocation.PromisePlan, bool, error) {
	snapshot, err := p.readSnapshotLive(ctx, request.Namespace)
	if err != nil {
		return allocation.PromisePlan{}, false, err
	}
	plan, err := allocation.PlanPromise(request, snapshot)
	if err != nil {
		return plan, false, err
	}
	if !plan.Satisfied {
		if weaker := p.weaker(asked, snapshot); len(weaker) > 0 {
			return p.overrule(ctx, attempt{asked: asked, request: request, snapshot: snapshot, plan: plan}, weaker)
		}
		return plan, true, p.withdraw(ctx, asked)
	}
	promised := asked.DeepCopy()
	promised.Spec.State = infrav1.ReservationPromised
	settled(promised)
	err = p.Client.Update(ctx, promised) // on the version that was asked with: it was not withdrawn
	if retry(err) {
		return plan, false, nil
	}
	if err != nil {
		return plan, false, fmt.Errorf("promise hosts to Cluster %s: %w", request.ClusterName, err)
	}
	return plan, true, nil
}

// overrule withdraws what others ask for at the same time, if that makes room.
func (p *Planner) overrule(ctx context.Context, a attempt, weaker map[string]*infrav1.IngotReservation) (allocation.PromisePlan, bool, error) {
	var stronger []infrav1.IngotReservation
	for _, r := range a.snapshot.Reservations {
		if weaker[r.Name] == nil {
			stronger = append(stronger, r)
		}
	}
	a.snapshot.Reservations = stronger
	without, err := allocation.PlanPromise(a.request, a.snapshot)
	if err != nil {
		return a.plan, false, err
	}
	if !without.Satisfied {
		return a.plan, true, p.withdraw(ctx, a.asked)
	}
	for _, r := range weaker {
		if err := p.withdraw(ctx, r); err != nil {
			return a.plan, false, err
		}
	}
	return without, false, nil // counted again, since one of them may have been promised just before
}

// attempt is one that others are in the way of.
type attempt struct {
	asked    *infrav1.IngotReservation
	request  allocation.PromiseRequest
	snapshot allocation.Snapshot
	plan     allocation.PromisePlan
}

// weaker are the others that were asked for and must give way to this one: those that
// were asked later (of two at once, the later name), and those that whoever asked has
// forgotten.
func (p *Planner) weaker(asked *infrav1.IngotReservation, snapshot allocation.Snapshot) map[string]*infrav1.IngotReservation {
	weaker := map[string]*infrav1.IngotReservation{}
	for i := range snapshot.Reservations {
		r := &snapshot.Reservations[i]
		if r.Name == asked.Name || r.Spec.State != infrav1.ReservationAsked {
			continue
		}
		later := asked.Spec.AskedAt.Time.Compare(r.Spec.AskedAt.Time)
		if later < 0 || later == 0 && asked.Name < r.Name || stale(r, p.Clock.Now()) {
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
func (p *Planner) withdraw(ctx context.Context, r *infrav1.IngotReservation) error {
	return withdraw(ctx, p.Client, r, p.Clock.Now())
}

func (p *Planner) stands(r *infrav1.IngotReservation) bool {
	return allocation.Stands(r, p.Clock.Now())
}

func (p *Planner) expiry() time.Duration {
	if p.Expiry > 0 {
		return p.Expiry
	}
	return DefaultExpiry
}

// renewal is how long a promise lasts that is not the first, and the rest before it.
func (p *Planner) renewal() time.Duration { return p.expiry() / renewals }

// lasts is how long a promise is made for.
func (p *Planner) lasts(own *infrav1.IngotReservation, spec infrav1.IngotReservationSpec) time.Duration {
	if spec.Purpose == infrav1.ReservationUpgrade {
		machines := 0
		for _, g := range spec.Groups {
			machines += int(g.Count)
		}
		return max(p.expiry(), time.Duration(machines)*perMachine)
	}
	if own != nil && !p.stands(own) && sameDemand(own.Spec, spec) {
		return p.renewal()
	}
	return p.expiry()
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
