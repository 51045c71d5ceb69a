// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package continuity

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// MaxGap is the maximum time between two renewals for the watch to continue. A replaced Pod or a
	// new leader is faster. No operator restores a younger backup.
	MaxGap = time.Minute
	// Interval is the time between two renewals.
	Interval = 10 * time.Second
	// retry is the delay after a failed renewal.
	retry = time.Second
)

// Watch keeps the Lease. All exported fields are required. It is a manager.Runnable of the leader, and
// safe for concurrent use.
type Watch struct {
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Clock clock.WithTicker
	// Namespace and Name of the Lease; see Start.
	Namespace, Name string

	mu sync.Mutex
	// since is the result; zero before the Lease was read. renewed is the last renewal seen in the
	// Lease. began is when this process was first asked.
	since, renewed, began time.Time
	// tried: a renewal was tried.
	tried bool
}

// Known reports whether a renewal was tried, so that Since is more than a guess.
func (w *Watch) Known() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tried || w.Namespace == ""
}

// Since returns the time since which managers have watched without a gap. Before the Lease was read, that
// is the start of this process.
func (w *Watch) Since() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.since.IsZero() {
		return w.since
	}
	if w.began.IsZero() {
		w.began = w.Clock.Now()
	}
	return w.began
}

// Look returns Since by the present Lease. A replica that is not the leader, and so does not renew the
// Lease, gets the time of the leader. It returns errors of the API server.
func (w *Watch) Look(ctx context.Context) (time.Time, error) {
	w.mu.Lock()
	leads := !w.renewed.IsZero() || !w.since.IsZero()
	w.mu.Unlock()
	if leads || w.Namespace == "" {
		return w.Since(), nil
	}
	lease := &coordinationv1.Lease{}
	err := w.Live.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, lease)
	if client.IgnoreNotFound(err) != nil {
		return time.Time{}, fmt.Errorf("read Lease %s/%s: %w", w.Namespace, w.Name, err)
	}
	return after(state{}, leaseState(lease), w.Clock.Now()).since, nil
}

// Break starts the watch again: the caller has seen state that went back in time.
func (w *Watch) Break() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.renewed = w.Clock.Now(), time.Time{}
}

// Start renews the Lease until ctx ends. Without a namespace, as outside of a Pod, there is no Lease, and
// state that is older than the process is confirmed at every start.
func (w *Watch) Start(ctx context.Context) error {
	if w.Namespace == "" {
		<-ctx.Done()
		return nil
	}
	log := ctrl.LoggerFrom(ctx).WithValues("lease", w.Namespace+"/"+w.Name)
	for {
		wait := Interval
		err := w.renew(ctx)
		w.mu.Lock()
		w.tried = true
		w.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			wait = retry
			if !apierrors.IsConflict(err) {
				log.Error(err, "Could not renew the Lease")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.Clock.After(wait):
		}
	}
}

// renew reads the Lease and writes it.
func (w *Watch) renew(ctx context.Context) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	err := w.Live.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		return err
	}
	now := w.Clock.Now()
	w.mu.Lock()
	was := state{since: w.since, renewed: w.renewed}
	w.mu.Unlock()
	next := after(was, leaseState(lease), now)
	lease.Spec.HolderIdentity = ptr.To("ingot-manager")
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(MaxGap.Seconds()))
	lease.Spec.AcquireTime, lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(next.since)), ptr.To(metav1.NewMicroTime(next.renewed))
	if missing {
		err = w.Client.Create(ctx, lease)
	} else {
		err = w.Client.Update(ctx, lease)
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.Equal(was.since) { // else Break was called meanwhile, and the next renewal writes its time
		w.since, w.renewed = next.since, next.renewed
	}
	if !next.since.Equal(was.since) {
		ctrl.LoggerFrom(ctx).Info("Ingot confirms older state of hosts at the servers before it acts on it", "since", w.since)
	}
	return nil
}

// state is since when the watch has no gap, and when it was last renewed.
type state struct{ since, renewed time.Time }

func leaseState(lease *coordinationv1.Lease) state {
	if lease.Spec.AcquireTime == nil || lease.Spec.RenewTime == nil {
		return state{}
	}
	return state{since: lease.Spec.AcquireTime.Time, renewed: lease.Spec.RenewTime.Time}
}

// after returns the state after a renewal, by what this process knows (zero after its start) and what it
// found in the Lease. Times in a Lease have microseconds.
func after(known, found state, now time.Time) state {
	next := state{since: now.Truncate(time.Microsecond), renewed: now.Truncate(time.Microsecond)}
	switch gap := now.Sub(found.renewed); {
	case known.since.IsZero():
		if !found.renewed.IsZero() && gap <= MaxGap && gap >= -MaxGap {
			next.since = found.since
		}
	case known.renewed.IsZero(): // Break was called
		next.since = known.since
	case !found.renewed.Before(known.renewed): // written by this process or, later, by another manager
		next.since = found.since
	}
	return next
}
