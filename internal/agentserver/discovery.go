// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"errors"
	"net/http"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/enrollment"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory"
)

// isUnknownClient reports whether the caller is a machine that no host has. Its token names a
// network and the MAC address that booted. The machine reports its hardware, and is then told to
// restart: it gets no other order and no bootstrap data, and changes no existing object.
func (c caller) isUnknownClient() bool { return c.claims.Purpose == token.Discover }

// enroll enrolls the machine that reports itself.
func (s *Server) enroll(r *http.Request, c caller, in agentapi.SessionRequest) (agentapi.Session, *agentapi.Error) {
	registrar := enrollment.Registrar{Client: s.Client, Live: s.Live, Recorder: s.Recorder, Clock: s.Clock, RateLimiter: &s.enrollments,
		WatchFilterValue: s.WatchFilterValue}
	_, err := registrar.Enroll(r.Context(), enrollment.Report{
		Network: c.claims.Host, MAC: c.claims.OrderID, Source: c.source, Key: c.key, Facts: inventory.HardwareFromAgent(in.Hardware),
	})
	if after, ok := enrollment.RetryAfter(err); ok {
		refusal := notReady(err.Error())
		refusal.RetryAfter = agentapi.Duration(min(after, time.Minute))
		return agentapi.Session{}, refusal
	}
	if errors.Is(err, enrollment.ErrRejected) {
		s.Log.Info("Did not enroll an unknown machine", "network", c.claims.Host, "mac", c.claims.OrderID, "reason", err.Error())
		return agentapi.Session{}, orderGone(err.Error())
	}
	if err != nil {
		s.Log.Error(err, "Could not enroll an unknown machine", "network", c.claims.Host, "mac", c.claims.OrderID)
		return agentapi.Session{}, notReady("the machine could not be enrolled yet")
	}
	return agentapi.Session{Now: s.Clock.Now().UTC(), Host: enrolledHost, ProgressInterval: agentapi.Duration(ProgressInterval)}, nil
}

// enrolledHost replaces the host's name on the console of an enrolled machine. The real name and
// namespace stay secret: the machine may have reported another one's MAC address or serial number
// to learn them.
const enrolledHost = "(enrolled; waits for approval)"
