// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

const (
	// DefaultExpiry is how long an unclaimed reservation lasts: long enough for a control plane
	// that is installed server by server, short enough that a Cluster which is never created
	// does not block a rack for a week.
	DefaultExpiry = 24 * time.Hour
	// renewals divides the duration of repeated reservations of the same hosts for one Cluster.
	// Each follows a break of the same length, in which other Clusters can claim the hosts.
	renewals = 4
	// perMachine is the minimum duration of an upgrade's reservation for each machine: machines
	// are replaced one by one.
	perMachine = time.Hour
	// maxConcurrent bounds the requests that count hosts at once: each holds a list of all
	// machines.
	maxConcurrent = 2
	// staleAfter is the maximum time from a request to the reservation. Other planners that
	// need the hosts withdraw an older request.
	staleAfter = time.Minute
	// maxAttempts bounds the retries after conflicts.
	maxAttempts = 5
)

// ErrContended means that other planners requested the same hosts at the same time. The caller
// should retry.
var ErrContended = errors.New("hosts are being reserved for several Clusters at the same time")

// Planner reserves hosts for Clusters. It is safe for concurrent use, also by several replicas.
type Planner struct {
	// Client reads from a cache and writes.
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Clock clock.PassiveClock
	// Expiry is the duration of a reservation; zero: DefaultExpiry.
	Expiry time.Duration
	// Hosts keeps hosts between plans; nil: each plan lists them.
	Hosts *HostCache
	// WatchFilterValue is the label of the hosts to reserve (M41); empty: all.
	WatchFilterValue string

	once  sync.Once
	slots chan struct{}
}

// Plan returns the plan of Reserve, by the cache, and writes nothing.
func (p *Planner) Plan(ctx context.Context, request allocation.PlanRequest) (allocation.ReservationPlan, error) {
	snapshot, err := p.Snapshot(ctx, request.Namespace)
	if err != nil {
		return allocation.ReservationPlan{}, err
	}
	return allocation.PlanReservation(request, snapshot)
}

// Reserve reserves all hosts of the request for the Cluster with the UID, or none: then the plan
// states the missing hosts. Repeated calls return the same result and write nothing. A
// different request replaces the earlier reservation. If the new request fails, a reservation
// made by an operator is restored, and an upgrade keeps the earlier reservation. An expired
// reservation is renewed only after a break, which the plan states. request.Surge is not
// reserved (use Plan).
//
// Errors are ErrContended, allocation.ErrSelectorInvalid and those of the API server.
func (p *Planner) Reserve(ctx context.Context, uid types.UID, request allocation.PlanRequest) (allocation.ReservationPlan, error) {
	plan, err := p.Plan(ctx, request)
	if err != nil || len(plan.Reservation.Groups) == 0 {
		return plan, err
	}
	for range maxAttempts {
		own, err := p.own(ctx, request)
		if err != nil {
			return plan, err
		}
		if own != nil && ownedByAnother(own, uid) {
			// It belongs to an earlier Cluster of that name and is about to be garbage-collected.
			if err := restoreOrDelete(ctx, p.Client, own, nil); err != nil && !isRetry(err) {
				return plan, fmt.Errorf("delete reservation of an earlier Cluster %s: %w", own.Name, err)
			}
			continue
		}
		if answer, ok := p.answerWithoutWrite(own, plan); ok {
			return answer, nil
		}
		asked, err := p.ask(ctx, own, uid, request, plan.Reservation)
		if isRetry(err) {
			continue
		}
		if err != nil {
			return plan, err
		}
		var done bool
		if plan, done, err = p.decideInSlot(ctx, asked, request); err != nil || done {
			return plan, err
		}
	}
	return plan, fmt.Errorf("reserve hosts for Cluster %s: %w", request.ClusterName, ErrContended)
}

// answerWithoutWrite answers from the current reservation and the cache if that is possible: a
// valid reservation satisfies the same request, and a request that the cache cannot satisfy is
// not written.
func (p *Planner) answerWithoutWrite(own *infrav1.IngotReservation, plan allocation.ReservationPlan) (allocation.ReservationPlan, bool) {
	if own == nil {
		return plan, !plan.Satisfied
	}
	same := isSameDemand(own.Spec, plan.Reservation)
	switch {
	case own.Spec.State == infrav1.ReservationReserved && p.isValid(own) && same:
		plan.Satisfied, plan.Missing, plan.Message = true, nil, ""
		return plan, true
	case !plan.Satisfied && (plan.Reservation.Purpose == infrav1.ReservationUpgrade || isManual(own.Spec) && p.isValid(own)):
		return plan, true // keep the current reservation
	case !same || p.isValid(own):
		return plan, false
	}
	if until := own.Spec.ExpirationTime.Add(p.renewal()); p.Clock.Now().Before(until) && plan.Satisfied {
		plan.Satisfied = false
		plan.Message = fmt.Sprintf("the Cluster did not claim its reserved hosts by %s; other Clusters may have them until %s; to reserve them again now: kubectl delete ires -n %s %s",
			own.Spec.ExpirationTime.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339), own.Namespace, own.Name)
	}
	return plan, !plan.Satisfied // the expired reservation stays, to show that this is a renewal
}

// EndUpgrade ends the reservation of a finished upgrade and restores an earlier one made by an
// operator. A reservation that the cache does not show does not exist: an upgrade takes minutes
// at least.
func (p *Planner) EndUpgrade(ctx context.Context, uid types.UID, cluster types.NamespacedName) error {
	if err := p.Client.Get(ctx, cluster, &infrav1.IngotReservation{}); err != nil {
		return client.IgnoreNotFound(err)
	}
	for range maxAttempts {
		own, err := p.own(ctx, allocation.PlanRequest{Namespace: cluster.Namespace, ClusterName: cluster.Name})
		if err != nil || own == nil || own.Spec.Purpose != infrav1.ReservationUpgrade || ownedByAnother(own, uid) {
			return err
		}
		err = restoreOrDelete(ctx, p.Client, own, rollback(own, p.Clock.Now(), infrav1.ManualSpecAnnotation))
		if !isRetry(err) {
			return err
		}
	}
	return fmt.Errorf("end the upgrade reservation of Cluster %s: %w", cluster.Name, ErrContended)
}

func (p *Planner) own(ctx context.Context, request allocation.PlanRequest) (*infrav1.IngotReservation, error) {
	return kubeutil.Find[infrav1.IngotReservation](ctx, p.Live, request.Namespace, request.ClusterName)
}

// ask writes the request before the hosts are counted: later claims and requests see it.
func (p *Planner) ask(ctx context.Context, own *infrav1.IngotReservation, uid types.UID, request allocation.PlanRequest, spec infrav1.IngotReservationSpec) (*infrav1.IngotReservation, error) {
	now := metav1.NewTime(p.Clock.Now())
	spec.State, spec.RequestTime, spec.ExpirationTime = infrav1.ReservationRequested, now, metav1.NewTime(now.Add(p.duration(own, spec)))
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
	if own.Spec.State == infrav1.ReservationRequested && isSameDemand(own.Spec, spec) && p.isValid(own) {
		return own, nil // another replica made the same request: the first to write decides
	}
	asked := own.DeepCopy()
	asked.Spec = spec
	storePrevious(asked, own, p.Clock.Now())
	return asked, p.Client.Update(ctx, asked)
}

func (p *Planner) decideInSlot(ctx context.Context, asked *infrav1.IngotReservation, request allocation.PlanRequest) (allocation.ReservationPlan, bool, error) {
	p.once.Do(func() { p.slots = make(chan struct{}, maxConcurrent) })
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return allocation.ReservationPlan{}, false, fmt.Errorf("wait to count hosts: %w", ctx.Err())
	}
	defer func() { <-p.slots }()
	return p.decide(ctx, asked, request)
}

// decide counts the hosts and reserves them or withdraws the request. It returns false if the
// request changed in between: the caller starts over.
func (p *Planner) decide(ctx context.Context, asked *infrav1.IngotReservation, request allocation.PlanRequest) (allocation.ReservationPlan, bool, error) {
	snapshot, err := p.readSnapshotLive(ctx, request.Namespace)
	if err != nil {
		return allocation.ReservationPlan{}, false, err
	}
	plan, err := allocation.PlanReservation(request, snapshot)
	if err != nil {
		return plan, false, err
	}
	if !plan.Satisfied {
		if weaker := p.weaker(asked, snapshot); len(weaker) > 0 {
			return p.overrule(ctx, attempt{asked: asked, request: request, snapshot: snapshot, plan: plan}, weaker)
		}
		return plan, true, p.withdraw(ctx, asked)
	}
	reserved := asked.DeepCopy()
	reserved.Spec.State = infrav1.ReservationReserved
	discardPrevious(reserved)
	err = p.Client.Update(ctx, reserved) // fails if the request was withdrawn
	if isRetry(err) {
		return plan, false, nil
	}
	if err != nil {
		return plan, false, fmt.Errorf("reserve hosts for Cluster %s: %w", request.ClusterName, err)
	}
	return plan, true, nil
}

// overrule withdraws weaker concurrent requests if that frees enough hosts.
func (p *Planner) overrule(ctx context.Context, a attempt, weaker map[string]*infrav1.IngotReservation) (allocation.ReservationPlan, bool, error) {
	a.snapshot.Reservations = slices.DeleteFunc(slices.Clone(a.snapshot.Reservations), func(r infrav1.IngotReservation) bool { return weaker[r.Name] != nil })
	without, err := allocation.PlanReservation(a.request, a.snapshot)
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
	return without, false, nil // count again: a weaker request may just have been granted
}

type attempt struct {
	asked    *infrav1.IngotReservation
	request  allocation.PlanRequest
	snapshot allocation.Snapshot
	plan     allocation.ReservationPlan
}

// weaker returns the concurrent requests that must give way to this one: later requests (at the
// same time, those with a later name) and stale requests.
func (p *Planner) weaker(asked *infrav1.IngotReservation, snapshot allocation.Snapshot) map[string]*infrav1.IngotReservation {
	weaker := map[string]*infrav1.IngotReservation{}
	for i := range snapshot.Reservations {
		r := &snapshot.Reservations[i]
		if r.Name == asked.Name || r.Spec.State != infrav1.ReservationRequested {
			continue
		}
		later := asked.Spec.RequestTime.Time.Compare(r.Spec.RequestTime.Time)
		if later < 0 || later == 0 && asked.Name < r.Name || isStale(r, p.Clock.Now()) {
			weaker[r.Name] = r
		}
	}
	return weaker
}

func isStale(r *infrav1.IngotReservation, now time.Time) bool {
	return r.Spec.State == infrav1.ReservationRequested && now.Sub(r.Spec.RequestTime.Time) > staleAfter
}

func (p *Planner) withdraw(ctx context.Context, r *infrav1.IngotReservation) error {
	return withdraw(ctx, p.Client, r, p.Clock.Now())
}

func (p *Planner) isValid(r *infrav1.IngotReservation) bool {
	return allocation.IsInForce(r, p.Clock.Now())
}

func (p *Planner) expiry() time.Duration { return cmp.Or(max(p.Expiry, 0), DefaultExpiry) }

// renewal is the duration of a repeated reservation and of the break before it.
func (p *Planner) renewal() time.Duration { return p.expiry() / renewals }

func (p *Planner) duration(own *infrav1.IngotReservation, spec infrav1.IngotReservationSpec) time.Duration {
	if spec.Purpose == infrav1.ReservationUpgrade {
		machines := 0
		for _, g := range spec.Groups {
			machines += int(g.Count)
		}
		return max(p.expiry(), time.Duration(machines)*perMachine)
	}
	if own != nil && !p.isValid(own) && isSameDemand(own.Spec, spec) {
		return p.renewal()
	}
	return p.expiry()
}

func ownedByAnother(r *infrav1.IngotReservation, uid types.UID) bool {
	return slices.ContainsFunc(r.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == clusterv1.ClusterKind && owner.UID != uid
	})
}

func isSameDemand(a, b infrav1.IngotReservationSpec) bool {
	for _, spec := range []*infrav1.IngotReservationSpec{&a, &b} {
		spec.State, spec.RequestTime, spec.ExpirationTime = "", metav1.Time{}, metav1.Time{}
	}
	return equality.Semantic.DeepEqual(a, b)
}

func isRetry(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}
