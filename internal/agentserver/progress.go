// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// takeProgress keeps the agent's contact and progress, and calls it off when its
// order no longer holds.
func (s *Server) takeProgress(r *http.Request, c caller, in agentapi.Progress) (agentapi.ProgressReply, *agentapi.Error) {
	if c.isStranger() {
		return agentapi.ProgressReply{}, nil
	}
	var refusal *agentapi.Error
	host := s.atWork(r.Context(), c, in.OrderID)
	if host == nil {
		host, refusal = s.holder(r.Context(), c, in.OrderID)
	}
	if refusal != nil {
		if refusal.Reason == agentapi.ReasonOrderGone {
			return agentapi.ProgressReply{Stop: true}, nil
		}
		return agentapi.ProgressReply{}, refusal
	}
	s.note(r.Context(), host, in)
	return agentapi.ProgressReply{}, nil
}

// atWork returns the host if, by the cache, the caller works on its order and may go
// on; nil if that is not sure. Every agent asks that every few seconds, and a thousand
// of them would crowd out the live reads on which claims and switches wait. The answer
// gives no authority, and the cache lags behind by far less than an agent is given to
// hear of a pause (I10). What it denies, only a live read may deny.
func (s *Server) atWork(ctx context.Context, c caller, orderID string) *infrav1.IngotHost {
	host := &infrav1.IngotHost{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: c.claims.Namespace, Name: c.claims.Host}, host); err != nil {
		return nil
	}
	paused, pauseErr := isPaused(ctx, s.Client, host)
	from, addressErr := s.whereabouts(ctx, s.Client, host)
	switch order := host.Spec.Order; {
	case pauseErr != nil, addressErr != nil, paused, orderID != c.claims.OrderID:
		return nil
	case judge(host, c, from, false).refusal != nil:
		return nil
	case order.AgentKey == "", order.Result != nil:
		return nil
	}
	return host
}

// note writes progress to the host's status, where it is new enough to matter.
// Progress that is lost does no harm: the next one says the same.
func (s *Server) note(ctx context.Context, host *infrav1.IngotHost, in agentapi.Progress) {
	now := s.Clock.Now()
	if !s.progress.worth(host.Spec.Order.ID, in, now) {
		return
	}
	base := host.DeepCopy()
	// All of it is written, whatever the cache has seen: nothing of the step before stays.
	base.Status.Operation = &infrav1.HostOperation{Percent: ptr.To[int32](-1), Bytes: -1}
	host.Status.Operation = &infrav1.HostOperation{
		Kind:            host.Spec.Order.Kind,
		Step:            cutName(string(in.Step), maxStep),
		Percent:         percentOf(in),
		Bytes:           max(in.Bytes, 0),
		StartedAt:       host.Spec.Order.CreatedAt,
		Attempts:        host.Spec.Order.Attempt,
		LastContactTime: metav1.NewTime(now),
	}
	err := s.Client.Status().Patch(ctx, host, client.MergeFrom(base))
	if err != nil && ctx.Err() == nil { // an agent that has finished the step hangs up
		s.Log.Error(err, "Could not save the progress of an agent", "host", client.ObjectKeyFromObject(host).String())
	}
}

// percentOf is the percentage of the step, within bounds. A verification is over before its
// second report is worth a write: it has none, since the first would stay.
func percentOf(in agentapi.Progress) *int32 {
	if in.Step == agentapi.StepVerify {
		return nil
	}
	return ptr.To(min(max(in.Percent, 0), 100))
}

// progressLog remembers what was last written per order, so that a chatty agent
// costs few writes. It may be lost.
type progressLog struct {
	mu   sync.Mutex
	last map[string]progressMark
}

type progressMark struct {
	said agentapi.Progress
	at   time.Time
}

// maxStep bounds the name of a step (the schema's).
const maxStep = 64

// Steps of progress that are worth a write.
const (
	progressPercent = 5
	progressSilence = 20 * time.Second
	// progressKept bounds the memory: orders that have not been heard of for so
	// long have ended.
	progressKept = time.Hour
)

// worth says whether progress is to be written: a new step, 5 % more, or a sign of
// life after a while; and never more often than ProgressInterval within a step. Bytes
// are a sign of life and no more, so that to show them costs no write.
// Who says the same again only asks whether to go on: its work may hang (I13).
func (l *progressLog) worth(order string, in agentapi.Progress, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last == nil {
		l.last = map[string]progressMark{}
	}
	mark, known := l.last[order]
	age := now.Sub(mark.at)
	news := !known || in.Step != mark.said.Step || (in != mark.said && age >= progressSilence) ||
		(in.Percent-mark.said.Percent >= progressPercent && age >= ProgressInterval)
	if !news {
		return false
	}
	l.last[order] = progressMark{said: in, at: now}
	for id, m := range l.last {
		if now.Sub(m.at) > progressKept {
			delete(l.last, id)
		}
	}
	return true
}
