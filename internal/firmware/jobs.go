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
)

// pushesAtOnce bounds how many images are on their way to BMCs at the same time: the
// library that pushes to Supermicro X11 boards holds each in memory (64 MiB at most there).
const pushesAtOnce = 4

// Works are what goes on beside the workers, and what is known of it, since a slow server
// or a slow BMC would keep a worker for minutes (I13): images of firmware are read, each
// once however many hosts wait for it, and pushed to BMCs. All of it may be lost with the
// process: images are read again, and of a push the ledger tells the next manager. The
// zero value is ready.
type Works struct {
	mu sync.Mutex
	// ctx of all works, which cancel ends; both are there once base was asked for.
	ctx     context.Context // ends with the manager's
	cancel  context.CancelFunc
	running sync.WaitGroup

	images map[imageKey]*image
	queue  queue
	// room is what is taken of MaxDisk.
	room int64
	// taken are the BMCs to which images are taken to be pushed: before a push is in the
	// books its ledger is written, and many workers may be there at once.
	taken  map[string]bool
	pushes map[types.NamespacedName]*push
	// unsent are the pushes of which the BMC surely never heard, until their hosts are
	// looked at.
	unsent map[types.NamespacedName]unsentPush
	// woken are the hosts that wait for nothing any more, until they are looked at: one
	// that is being reconciled at that moment would forget it.
	woken map[types.NamespacedName]bool
}

type unsentPush struct {
	why string
	// least is how long the BMC asks to be left alone.
	least time.Duration
}

// push is an image on its way to a BMC.
type push struct {
	// place is the BMC, whichever of its systems the host is.
	place  string
	size   int64
	sent   atomic.Int64
	cancel context.CancelFunc
}

// percent of the image that was given to the driver. The last is the BMC's answer.
func (u *push) percent() int { return int(min(u.sent.Load()*100/max(u.size, 1), 99)) }

// Start is the manager's way to end the works: it returns once its context and then they
// have ended. Works that nobody starts end by their own deadlines.
func (w *Works) Start(ctx context.Context) error {
	<-ctx.Done()
	w.mu.Lock()
	w.base()
	w.cancel()
	w.mu.Unlock()
	w.running.Wait()
	return nil
}

// base is the context of all works. The lock is held.
func (w *Works) base() context.Context {
	if w.ctx == nil {
		w.ctx, w.cancel = context.WithCancel(context.Background())
	}
	return w.ctx
}

// goes lets a work go on beside the worker. The lock is held.
func (w *Works) goes(work func(ctx context.Context)) {
	ctx := w.base()
	if ctx.Err() != nil { // nobody waits for it any more
		go work(ctx)
		return
	}
	w.running.Go(func() { work(ctx) })
}

// Pushing says whether an image is being pushed for a host, and how much of it was.
func (w *Works) Pushing(host types.NamespacedName) (percent int, pushing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := w.pushes[host]
	if u == nil {
		return 0, false
	}
	return u.percent(), true
}

// PushingTo names the host for which an image is being pushed to the target's BMC, which
// is asked nothing else meanwhile: a call would wait for the end of the push.
func (w *Works) PushingTo(target bmc.Target) (host types.NamespacedName, pushing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for host, u := range w.pushes {
		if u.place == target.Place() {
			return host, true
		}
	}
	return types.NamespacedName{}, false
}

// Cancel breaks off the push for a host, of which nothing is noted any more: whoever
// finds its record later sees that it was cut off; nor is anything kept for it, which may
// be another of its name the next time. It says whether there is one still.
func (w *Works) Cancel(host types.NamespacedName) (pushing bool) {
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
