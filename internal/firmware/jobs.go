// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/slots"
)

// pushesAtOnce bounds the images that are pushed at the same time: the library that pushes to
// Supermicro X11 boards holds each in memory (64 MiB at most there).
const pushesAtOnce = 4

// Jobs runs jobs in the background, since a slow server or BMC would block a worker for minutes
// (I13). It reads each image of firmware once, however many hosts need it, and pushes images to
// BMCs. Its state may be lost with the process: images are read again, and the host's record shows
// the next manager a push. The zero value is ready.
type Jobs struct {
	mu sync.Mutex
	// ctx is the context of all jobs, and cancel ends it. jobContext creates both.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	images    map[imageKey]*image
	downloads *slots.Limiter[string]
	// diskUsed is how many bytes of MaxDisk are reserved.
	diskUsed int64
	// pushTargets are the BMCs for which an image was acquired. A push is in pushes only after its
	// record was written, and several workers may be at that point at once.
	pushTargets map[string]bool
	pushes      map[types.NamespacedName]*push
	// unsent holds the pushes that never reached their BMC, until the host is reconciled.
	unsent map[types.NamespacedName]unsentPush
	// woken holds the hosts whose wait has ended, until they are reconciled: a reconcile that is
	// running would overwrite the news.
	woken map[types.NamespacedName]bool
}

type unsentPush struct {
	reason string
	// minDelay is the delay that the BMC asks for.
	minDelay time.Duration
}

// push is an image on its way to a BMC.
type push struct {
	// target is the BMC, whichever of its systems the host is.
	target string
	size   int64
	sent   atomic.Int64
	cancel context.CancelFunc
}

// percent returns how much of the image the driver has read, at most 99: the BMC's answer is missing.
func (u *push) percent() int { return int(min(u.sent.Load()*100/max(u.size, 1), 99)) }

// Start implements manager.Runnable: it ends the jobs with ctx, and returns when they have ended.
// Without Start, jobs end by their own deadlines.
func (w *Jobs) Start(ctx context.Context) error {
	<-ctx.Done()
	w.mu.Lock()
	w.jobContext()
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
	return nil
}

// jobContext returns the context of all jobs. The caller holds the lock.
func (w *Jobs) jobContext() context.Context {
	if w.ctx == nil {
		w.ctx, w.cancel = context.WithCancel(context.Background())
	}
	return w.ctx
}

// start runs a job in the background. The caller holds the lock.
func (w *Jobs) start(job func(ctx context.Context)) {
	ctx := w.jobContext()
	if ctx.Err() != nil { // Start waits no more
		go job(ctx)
		return
	}
	w.running.Go(func() { job(ctx) })
}

// Pushing reports whether an image is being pushed for a host, and the percentage.
func (w *Jobs) Pushing(host types.NamespacedName) (percent int, pushing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.pushes[host]
	if u == nil {
		return 0, false
	}
	return u.percent(), true
}

// PushingTo returns the host for which an image is being pushed to the target's BMC. Other calls to
// that BMC would wait for the end of the push.
func (w *Jobs) PushingTo(target bmc.Target) (host types.NamespacedName, pushing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for host, u := range w.pushes {
		if u.target == target.Origin() {
			return host, true
		}
	}
	return types.NamespacedName{}, false
}

// Cancel cancels the push for a host, and reports whether there was one. The push records nothing:
// the next reader of the host's record sees that it was interrupted. Works forgets the host, whose
// name a new host may get.
func (w *Jobs) Cancel(host types.NamespacedName) (pushing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unsent, host)
	delete(w.woken, host)
	u := w.pushes[host]
	if u == nil {
		return false
	}
	u.cancel()
	return true
}
