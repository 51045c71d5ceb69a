// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// Thirty hosts that wait for one image are woken together. No more than pushesAtOnce of them acquire it.
func TestTakenAtOnce(t *testing.T) {
	key := imageKey{"a", "", true}
	kept := &image{at: time.Now(), waiting: map[types.NamespacedName]bool{}, idle: time.NewTimer(time.Hour), size: 1, file: tempFile(t)}
	w := &Jobs{images: map[imageKey]*image{key: kept}}
	defer w.drop(kept)
	var taken atomic.Int32
	var wg sync.WaitGroup
	for n := range 30 {
		wg.Go(func() {
			if i, why := w.acquireImage(key, fmt.Sprint("bmc-", n)); i != nil {
				taken.Add(1)
			} else if !strings.Contains(why, "the maximum number of BMCs") {
				t.Errorf("not acquired: %s", why)
			}
		})
	}
	wg.Wait()
	if n := taken.Load(); n != pushesAtOnce {
		t.Errorf("%d pushes at once, want %d", n, pushesAtOnce)
	}
	for place := range w.pushTargets {
		w.releaseImage(key, kept, place, time.Hour)
		if i, why := w.acquireImage(key, place); i == nil {
			t.Errorf("no place after one was given back: %s", why)
		}
		break
	}
	if i, _ := w.acquireImage(key, "one more"); i != nil {
		t.Error("one place was given back, and two are taken")
	}
}

// A BMC gets one push at a time, whichever system is updated: the wait would count as time of the second
// push.
func TestTakenOnceForABMC(t *testing.T) {
	key := imageKey{"a", "", true}
	kept := &image{at: time.Now(), waiting: map[types.NamespacedName]bool{}, idle: time.NewTimer(time.Hour), size: 1, file: tempFile(t)}
	w := &Jobs{images: map[imageKey]*image{key: kept}}
	defer w.drop(kept)
	first, second := bmc.Target{Address: "redfish://bmc/redfish/v1/Systems/1"}, bmc.Target{Address: "redfish://BMC/redfish/v1/Systems/2"}
	if i, why := w.acquireImage(key, first.Origin()); i == nil {
		t.Fatalf("not acquired: %s", why)
	}
	if i, why := w.acquireImage(key, second.Origin()); i != nil || !strings.Contains(why, "another system of this BMC") {
		t.Errorf("taken for another system of the same BMC: %q", why)
	}
	w.releaseImage(key, kept, first.Origin(), time.Hour)
	if i, why := w.acquireImage(key, second.Origin()); i == nil {
		t.Errorf("not taken after the first: %s", why)
	}
}

// An image that was dropped, and is being read again for another host, is not pushed.
func TestNoPushOfAnImageThatIsRead(t *testing.T) {
	key := imageKey{"a", "", true}
	reading := &image{waiting: map[types.NamespacedName]bool{}, file: tempFile(t), started: true}
	w := &Jobs{images: map[imageKey]*image{key: reading}}
	defer w.drop(reading)
	if i, why := w.acquireImage(key, "bmc"); i != nil || !strings.Contains(why, "reads the image again") {
		t.Errorf("took what is being read: %q", why)
	}
}

// A host is woken although a running reconcile overwrites its Memory.
func TestWakeDuringReconcile(t *testing.T) {
	s := newShop(t, nil)
	memory := &Memory{}
	v := s.view(memory)
	s.awaitJob(v, "the image is read")
	old := *memory
	s.wake(v.key())
	*memory = old // the end of the reconcile
	if err := s.ObservePush(v); err != nil || !memory.update.until.IsZero() {
		t.Errorf("it waits until %s: %v", memory.update.until, err)
	}
	s.awaitJob(v, "the next image is read")
	if err := s.ObservePush(v); err != nil || memory.update.until.IsZero() {
		t.Errorf("woken twice: %v", err)
	}
}

// The result of a push does not reach a new host of the same name.
func TestCancelForgetsTheHost(t *testing.T) {
	s := newShop(t, nil)
	memory := &Memory{}
	v := s.view(memory)
	s.Jobs.unsent = map[types.NamespacedName]unsentPush{}
	s.Jobs.recordUnsent(t.Context(), v.key(), unsentPush{reason: "the BMC of the other host is busy"})
	s.Jobs.Cancel(v.key())
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	s.Jobs.recordUnsent(cancelled, v.key(), unsentPush{reason: "the push was cancelled at its end"})
	if err := s.ObservePush(v); err != nil || memory.update.reason != "" {
		t.Errorf("put off for %q: %v", memory.update.reason, err)
	}
}

// A push releases its slot, however it ends, even if it never started.
func TestPlacesComeBack(t *testing.T) {
	s := newShop(t, func(_ context.Context, update bmc.Update) (bmc.Task, error) {
		_, err := io.Copy(io.Discard, update.Image)
		return bmc.Task{}, err
	})
	url, checksum := serve(t, []byte("an image"))
	memory, step := &Memory{}, s.step(url, checksum)
	if err := s.Execute(t.Context(), s.view(memory), step); err != nil {
		t.Fatal(err)
	}
	<-s.woken
	for range pushesAtOnce + 1 {
		s.mu.Lock()
		s.refuse = 1
		s.mu.Unlock()
		if err := s.Execute(t.Context(), s.view(memory), step); !errors.Is(err, errConflict) {
			t.Fatalf("the ledger was not written, and the error is %v", err)
		}
	}
	for range pushesAtOnce + 1 {
		if err := s.Execute(t.Context(), s.view(memory), step); err != nil {
			t.Fatal(err)
		}
		<-s.woken
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := pushesAtOnce + 1 + 2*(pushesAtOnce+1); s.saves != want {
		t.Errorf("%d saves, want %d: before and after each push", s.saves, want)
	}
}

type guardedBy struct{ BMC }

type guardKey struct{}

// DoWithin implements BMC.
func (g guardedBy) DoWithin(ctx context.Context, target bmc.Target, limit time.Duration, calls func(context.Context, bmc.Conn) error) error {
	if ctx.Value(guardKey{}) != "the server that was seen" {
		return bmc.ErrProtocol
	}
	return g.BMC.DoWithin(ctx, target, limit, calls)
}

// A push has the values of the worker's context, by which the caller checks the server, but does not end
// with that context.
func TestPushIsGuarded(t *testing.T) {
	goOn := make(chan struct{})
	s := newShop(t, func(ctx context.Context, update bmc.Update) (bmc.Task, error) {
		select {
		case <-goOn:
		case <-ctx.Done():
			return bmc.Task{}, ctx.Err()
		}
		_, err := io.Copy(io.Discard, update.Image)
		return bmc.Task{}, err
	})
	s.BMC = guardedBy{s}
	url, checksum := serve(t, []byte("an image"))
	memory, step := &Memory{}, s.step(url, checksum)
	if err := s.Execute(t.Context(), s.view(memory), step); err != nil {
		t.Fatal(err)
	}
	<-s.woken
	worker, cancel := context.WithCancel(context.WithValue(t.Context(), guardKey{}, "the server that was seen"))
	if err := s.Execute(worker, s.view(memory), step); err != nil {
		t.Fatal(err)
	}
	cancel()
	close(goOn)
	<-s.woken
	if update := lifecycle.UpdateOf(s.live()); update == nil || update.State != infrav1.UpdateAccepted {
		t.Errorf("the record says %+v, want it accepted", update)
	}
}
