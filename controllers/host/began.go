// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// maxDrift is how far the wall clock may go its own way between two looks at it: a clock
// that is slewed goes by milliseconds, one that is set, or a virtual machine that was
// asleep, by more. It is also how far the clocks of two managers may be apart.
const maxDrift = 10 * time.Second

// beginning is when the reconciler came to its first host: after the manager's start, and
// after it was elected, which may be long after that. Agents may have had nobody to report
// to before. When the clock is set it begins again: the times in status are by the old one,
// and an agent that spoke a moment ago would have been silent for an hour. The zero value:
// it has not begun.
type beginning struct {
	mu       sync.Mutex
	at, last time.Time
}

// of is when it began; it begins now where it had not.
func (b *beginning) of(now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.after(now, now.Round(0).Sub(b.last.Round(0))-now.Sub(b.last))
}

// after is of, where the wall clock has gone so much further than the monotonic one since
// the last look.
func (b *beginning) after(now time.Time, drift time.Duration) time.Time {
	if b.at.IsZero() || drift.Abs() > maxDrift {
		b.at = now
	}
	b.last = now
	return b.at
}

// heedClock puts times of status that lie ahead, since the clock was set back, to now: the
// host would not be switched, and its agent not be given up, until the clock comes there.
// It says whether it wrote any.
func (r *Reconciler) heedClock(ctx context.Context, host *infrav1.IngotHost) (wrote bool, err error) {
	now, base := metav1.NewTime(r.Clock.Now()), host.DeepCopy()
	times := []*metav1.Time{&host.Status.LastResetTime, &host.Status.SoftPowerOffTime}
	if host.Status.Operation != nil {
		times = append(times, &host.Status.Operation.LastContactTime)
	}
	ahead := false
	for _, t := range times {
		if t.After(now.Add(maxDrift)) {
			*t, ahead = now, true
		}
	}
	if !ahead {
		return false, nil
	}
	if err := r.Client.Status().Patch(ctx, host, client.MergeFrom(base)); err != nil {
		return false, fmt.Errorf("times of %s that lie ahead: %w", client.ObjectKeyFromObject(host), err)
	}
	return true, nil
}
