// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/ttlset"
	"github.com/ingot-metal/ingot/inventory"
)

// acceptProgress records the agent's contact and progress, and stops the agent if its order has
// ended.
func (s *Server) acceptProgress(r *http.Request, c caller, in agentapi.Progress) (agentapi.ProgressReply, *agentapi.Error) {
	if c.isUnknownClient() {
		return agentapi.ProgressReply{}, nil
	}
	host := s.cachedSessionHost(r.Context(), c, in.OrderID)
	if host == nil {
		var refusal *agentapi.Error
		if host, refusal = s.sessionHost(r.Context(), c, in.OrderID); refusal != nil {
			if refusal.Reason == agentapi.ReasonOrderGone {
				return agentapi.ProgressReply{Stop: true}, nil
			}
			return agentapi.ProgressReply{}, refusal
		}
	}
	s.saveProgress(r.Context(), host, in)
	return agentapi.ProgressReply{}, nil
}

// cachedSessionHost returns the host if, by the cache, the caller works on its order and may
// continue; else nil. Every agent asks every few seconds, and live reads for thousands of agents
// would delay the claims and power changes that need them. The answer gives no authority, and the
// cache lags far less than an agent may take to notice a pause (I10). Only a live read may refuse.
func (s *Server) cachedSessionHost(ctx context.Context, c caller, orderID string) *infrav1.IngotHost {
	host := s.cachedHost(ctx, c, false)
	if host == nil || orderID != c.claims.OrderID || host.Spec.Order.AgentKey == "" {
		return nil
	}
	return host
}

// cachedHost returns the host if, by the cache, the caller may work on its order; else nil. expired
// is set if the caller's token has expired, so that the token no longer opens a session.
func (s *Server) cachedHost(ctx context.Context, c caller, expired bool) *infrav1.IngotHost {
	host := &infrav1.IngotHost{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: c.claims.Namespace, Name: c.claims.Host}, host); err != nil {
		return nil
	}
	paused, pauseErr := isPaused(ctx, s.Client, host)
	from, addressErr := s.allowedSources(ctx, s.Client, host)
	if pauseErr != nil || addressErr != nil || paused || decide(host, c, from, expired).refusal != nil {
		return nil
	}
	return host
}

// saveProgress writes progress to the host's status, if it is new enough to matter. Lost progress
// does no harm: the next call repeats it.
func (s *Server) saveProgress(ctx context.Context, host *infrav1.IngotHost, in agentapi.Progress) {
	now := s.Clock.Now()
	if !s.progress.needsWrite(host.Spec.Order.ID, in, now) {
		return
	}
	s.saveOperation(ctx, host, infrav1.HostOperation{
		Step: cutName(string(in.Step), maxStep), Percent: percentOf(in), Bytes: max(in.Bytes, 0), LastContactTime: metav1.NewTime(now),
	})
}

// saveOperation writes what the agent does to the host's status. It sets the fields that name the order.
func (s *Server) saveOperation(ctx context.Context, host *infrav1.IngotHost, operation infrav1.HostOperation) {
	order, base := host.Spec.Order, host.DeepCopy()
	operation.Kind, operation.StartTime, operation.Attempt = order.Kind, order.CreationTime, order.Attempt
	// All fields differ from base and are written, so that nothing of an earlier step stays.
	base.Status.Operation = &infrav1.HostOperation{Percent: ptr.To[int32](-1), Bytes: -1}
	host.Status.Operation = &operation
	inventory.ShowProgress(host.Status.Operation)
	err := s.Client.Status().Patch(ctx, host, client.MergeFrom(base))
	if err != nil && ctx.Err() == nil { // an agent that has finished the step hangs up
		s.Log.Error(err, "Could not save the progress of an agent", "host", client.ObjectKeyFromObject(host).String())
	}
}

// percentOf returns the percentage of the step, from 0 to 100. A verification has none: it ends
// before a second report is written, so that the first percentage would stay.
func percentOf(in agentapi.Progress) *int32 {
	if in.Step == agentapi.StepVerify {
		return nil
	}
	return ptr.To(min(max(in.Percent, 0), 100))
}

// progressLog remembers the progress last written per order, to save writes. It is lost when the
// manager restarts.
type progressLog struct {
	written ttlset.Map[string, writtenProgress]
}

type writtenProgress struct {
	progress agentapi.Progress
	at       time.Time
}

// maxStep bounds the name of a step (limit of the schema).
const maxStep = 64

const (
	// progressPercent is the difference in percent that is worth a write.
	progressPercent = 5
	// progressSilence is the time after which any change is worth a write.
	progressSilence = 20 * time.Second
	// progressKept is how long progress is remembered. Orders without a write for so long have
	// ended.
	progressKept = time.Hour
)

// needsWrite reports whether progress is to be written: a new step; progressPercent more, at most
// once in ProgressInterval; or a sign of life after progressSilence. Bytes alone count as a sign of
// life. An agent that repeats the same progress shows none: its work may hang (I13).
func (l *progressLog) needsWrite(order string, in agentapi.Progress, now time.Time) bool {
	last, _, known := l.written.Get(order, now)
	age := now.Sub(last.at)
	if known && in.Step == last.progress.Step && (in == last.progress || age < progressSilence) &&
		(in.Percent-last.progress.Percent < progressPercent || age < ProgressInterval) {
		return false
	}
	l.written.Put(order, writtenProgress{progress: in, at: now}, now, progressKept)
	return true
}
