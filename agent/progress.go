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

type progressOptions struct {
	orderID  string
	interval time.Duration
	// callOff ends the work with the reason why.
	callOff context.CancelCauseFunc
}

// progress tells the manager how far the work is, beside the work: a slow or dead
// manager does not slow a disk down. A step that is over before its turn came is
// left out.
type progress struct {
	opts   progressOptions
	client *client
	notify chan struct{}
	done   chan struct{}

	mu     sync.Mutex
	latest agentapi.Progress
}

// startProgress sends until the context ends; wait returns when it has stopped.
func startProgress(ctx context.Context, c *client, opts progressOptions) *progress {
	p := &progress{
		opts: opts, client: c, notify: make(chan struct{}, 1), done: make(chan struct{}),
		latest: agentapi.Progress{OrderID: opts.orderID, Step: agentapi.StepStarted},
	}
	go p.run(ctx)
	return p
}

func (p *progress) wait() { <-p.done }

// set records how far the work is. It never blocks.
func (p *progress) set(step agentapi.Step, percent int, bytes int64) {
	p.put(agentapi.Progress{Step: step, Percent: int32(percent), Bytes: bytes})
}

func (p *progress) put(now agentapi.Progress) {
	now.OrderID = p.opts.orderID
	p.change(func(latest *agentapi.Progress) { *latest = now })
}

func (p *progress) change(latest func(*agentapi.Progress)) {
	p.mu.Lock()
	latest(&p.latest)
	p.mu.Unlock()
	select {
	case p.notify <- struct{}{}:
	default:
	}
}

// waiting records for how long somebody has been telling the agent to wait, which is no
// silence: to the minute, that many agents cost few writes.
func (p *progress) waiting(d time.Duration) {
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
	// The beat asks even when there is nothing to tell: the answer may be to stop.
	beat := time.NewTimer(p.opts.interval)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.notify:
		case <-beat.C:
		}
		for p.current().Step == sent.Step && time.Since(at) < p.opts.interval {
			// A change of step ends the pause early.
			timer := time.NewTimer(p.opts.interval - time.Since(at))
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
			p.opts.callOff(err)
			return
		}
		beat.Reset(p.opts.interval)
	}
}

// errPaused: nobody may act on the host now. The work ends, the session does not.
var errPaused = errors.New("the host is paused")

// send makes one attempt. Its error means that the work is to stop; a call that
// found nobody is forgotten, the next one will tell more, to another replica if need
// be: work that needs no server, such as wiping, makes no other calls.
func (p *progress) send(ctx context.Context, now agentapi.Progress) error {
	var reply agentapi.ProgressReply
	err := p.client.once(ctx, agentapi.PathProgress, now, &reply)
	if err == nil {
		if reply.Stop {
			return fmt.Errorf("%w: called off", ErrRefused)
		}
		return nil
	}
	refusal, ok := errors.AsType[*agentapi.Error](err)
	if !ok {
		if p.client.places.due() {
			p.client.places.search(ctx)
		}
		return nil
	}
	if refusal.Reason == agentapi.ReasonPaused {
		return fmt.Errorf("%w: %s", errPaused, refusal.Message)
	}
	if _, final := p.client.verdict(refusal, 0); final {
		return fmt.Errorf("%w: %s: %w", ErrRefused, agentapi.PathProgress, refusal)
	}
	return nil
}
