// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// progress reports to the manager concurrently with the work, so that a slow manager does
// not delay the disks. A step that ends before its report is due is not reported.
type progress struct {
	client   *client
	interval time.Duration
	// callOff cancels the work and gives the reason.
	callOff context.CancelCauseFunc
	notify  chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	latest agentapi.Progress
}

// startProgress reports until the context ends; wait returns when that has stopped.
func startProgress(ctx context.Context, c *client, orderID string, interval time.Duration, callOff context.CancelCauseFunc) *progress {
	p := &progress{
		client: c, interval: interval, callOff: callOff, notify: make(chan struct{}, 1), done: make(chan struct{}),
		latest: agentapi.Progress{OrderID: orderID, Step: agentapi.StepStarted},
	}
	go p.run(ctx)
	return p
}

func (p *progress) wait() { <-p.done }

// set records the state of the work. It never blocks.
func (p *progress) set(step agentapi.Step, percent int, bytes int64) {
	p.put(agentapi.Progress{Step: step, Percent: int32(percent), Bytes: bytes})
}

func (p *progress) put(now agentapi.Progress) {
	p.change(func(latest *agentapi.Progress) {
		now.OrderID = latest.OrderID
		*latest = now
	})
}

func (p *progress) change(update func(*agentapi.Progress)) {
	p.mu.Lock()
	update(&p.latest)
	p.mu.Unlock()
	select {
	case p.notify <- struct{}{}:
	default:
	}
}

// setWaiting records for how long a server has been asking the agent to wait. It rounds to
// minutes, so that many waiting agents cause few writes in the manager.
func (p *progress) setWaiting(d time.Duration) {
	p.change(func(now *agentapi.Progress) {
		if now.Step == agentapi.StepStarted {
			now.Step = agentapi.StepAwaitImage
		}
		now.Seconds = int64(d.Truncate(time.Minute) / time.Second)
	})
}

func (p *progress) current() agentapi.Progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

func (p *progress) run(ctx context.Context) {
	defer close(p.done)
	var sent agentapi.Progress
	var at time.Time
	// The beat reports even if nothing changed: the reply may stop the work.
	beat := time.NewTimer(p.interval)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.notify:
		case <-beat.C:
		}
		for p.current().Step == sent.Step && time.Since(at) < p.interval {
			// A change of the step ends this wait early.
			timer := time.NewTimer(p.interval - time.Since(at))
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-p.notify:
				timer.Stop()
			case <-timer.C:
			}
		}
		now := p.current()
		if now != sent {
			p.client.cfg.Log("progress: %s %d%% (%d MiB)", now.Step, now.Percent, now.Bytes>>20)
		}
		sent, at = now, time.Now()
		if err := p.send(ctx, sent); err != nil {
			p.callOff(err)
			return
		}
		beat.Reset(p.interval)
	}
}

// errPaused reports that the host is paused: the work ends, but not the session.
var errPaused = errors.New("the host is paused")

// send makes one attempt. An error means that the work must stop. Unanswered calls are
// ignored: the next report replaces this one. They count for the search for another
// replica, since work without a server, such as cleaning, makes no other calls.
func (p *progress) send(ctx context.Context, now agentapi.Progress) error {
	var reply agentapi.ProgressReply
	err := p.client.callOnce(ctx, agentapi.PathProgress, now, &reply)
	if err == nil {
		if reply.Stop {
			return fmt.Errorf("%w: the order no longer holds", ErrRefused)
		}
		return nil
	}
	refusal, ok := errors.AsType[*agentapi.Error](err)
	if !ok {
		if p.client.endpoints.needsSearch() {
			p.client.endpoints.search(ctx)
		}
		return nil
	}
	if refusal.Reason == agentapi.ReasonPaused {
		return fmt.Errorf("%w: %s", errPaused, refusal.Message)
	}
	if _, final := p.client.retryDelay(refusal, 0); final {
		return fmt.Errorf("%w: %s: %w", ErrRefused, agentapi.PathProgress, refusal)
	}
	return nil
}
