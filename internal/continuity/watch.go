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
	// MaxGap is how long no manager may have renewed the Lease for the watch to go on. A Pod
	// that is replaced, or a replica that takes over, is faster. No one restores a backup
	// that is younger.
	MaxGap = time.Minute
	// Interval of the renewals.
	Interval = 10 * time.Second
	// retry is how soon a renewal that failed is tried again.
	retry = time.Second
)

// Watch keeps the Lease. All exported fields are needed. It is a manager.Runnable of the
// leader, and safe for concurrent use.
type Watch struct {
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Clock clock.WithTicker
	// Namespace and Name of the Lease; see Start.
	Namespace, Name string

	mu sync.Mutex
	// since is the answer; zero: the Lease was not read yet. renewed is what was last seen in
	// the Lease. began is when this process was first asked.
	since, renewed, began time.Time
	// tried: the Lease was asked for.
	tried bool
}

// Known reports whether the Lease was asked for, so that Since is more than a guess.
func (w *Watch) Known() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tried || w.Namespace == ""
}

// Since returns the time since which managers have watched without a gap. Until the Lease is
// read, that is when this process began.
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

// Look returns Since as the Lease shows it now. A replica that does not lead, and so does not
// renew the Lease, finds the time of the leader. An error is the API server's.
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
		return time.Time{}, fmt.Errorf("the Lease that shows that a manager is at work: %w", err)
	}
	return after(state{}, leaseState(lease), w.Clock.Now()).since, nil
}

// Break begins the watch again: the caller has seen state that went back in time.
func (w *Watch) Break() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since, w.renewed = w.Clock.Now(), time.Time{}
}

// Start renews the Lease until ctx ends. Without a namespace, as outside of a Pod, there is
// none, and what is older than the process is confirmed at every start.
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
				log.Error(err, "Could not renew the Lease that shows that a manager is at work")
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.Clock.After(wait):
		}
	}
}

// renew reads the Lease and writes it again.
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
	if w.since.Equal(was.since) { // else Break was called meanwhile: the next renewal writes that
		w.since, w.renewed = next.since, next.renewed
	}
	if !next.since.Equal(was.since) {
		ctrl.LoggerFrom(ctx).Info("State of hosts from before this time is confirmed at the servers before Ingot acts on it", "since", w.since)
	}
	return nil
}

// state of the watch: since when it has no gap, and when it was renewed last.
type state struct{ since, renewed time.Time }

func leaseState(lease *coordinationv1.Lease) state {
	if lease.Spec.AcquireTime == nil || lease.Spec.RenewTime == nil {
		return state{}
	}
	return state{since: lease.Spec.AcquireTime.Time, renewed: lease.Spec.RenewTime.Time}
}

// after is what a renewal makes of the watch, by what this process knows (zero: it has just
// started) and what it found in the Lease. Times in a Lease have microseconds.
func after(known, found state, now time.Time) state {
	next := state{since: now.Truncate(time.Microsecond), renewed: now.Truncate(time.Microsecond)}
	switch gap := now.Sub(found.renewed); {
	case known.since.IsZero():
		if !found.renewed.IsZero() && gap <= MaxGap && gap >= -MaxGap {
			next.since = found.since
		}
	case known.renewed.IsZero(): // Break was called
		next.since = known.since
	case !found.renewed.Before(known.renewed): // what this process wrote, or another manager since
		next.since = found.since
	}
	return next
}
