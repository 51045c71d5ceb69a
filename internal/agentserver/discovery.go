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

// The session of a machine that nobody knows. Its token names a network and the MAC
// address that booted, and no host: by it the machine reports its hardware, is told
// that there is nothing to do, and leaves. It gets no other order, no bootstrap data,
// and changes nothing that is there.

// isStranger says whether the token is that of an unknown machine.
func (c caller) isStranger() bool { return c.claims.Purpose == token.Discover }

// admitStranger refuses what cannot be an unknown machine that was booted for it.
func (s *Server) admitStranger(c caller) *agentapi.Error {
	switch {
	case c.key == "":
		return invalidToken("a TLS client certificate is needed")
	case s.Clock.Now().After(c.claims.Expiry):
		return invalidToken("the token has expired")
	}
	return nil
}

// openStranger enrols the machine that reports itself.
func (s *Server) openStranger(r *http.Request, c caller, in agentapi.SessionRequest) (agentapi.Session, *agentapi.Error) {
	registrar := enrollment.Registrar{Client: s.Client, Live: s.Live, Recorder: s.Recorder, Clock: s.Clock, Pace: &s.enrolments,
		WatchFilterValue: s.WatchFilterValue}
	_, err := registrar.Enrol(r.Context(), enrollment.Report{
		Network: c.claims.Host, MAC: c.claims.OrderID, Source: c.source, Key: c.key, Facts: inventory.HardwareFromAgent(in.Hardware),
	})
	if after, ok := enrollment.Later(err); ok {
		refusal := notReady(err.Error())
		refusal.RetryAfter = agentapi.Duration(min(after, time.Minute))
		return agentapi.Session{}, refusal
	}
	if errors.Is(err, enrollment.ErrRefused) {
		s.Log.Info("An unknown machine was not enrolled", "network", c.claims.Host, "mac", c.claims.OrderID, "reason", err.Error())
		return agentapi.Session{}, orderGone(err.Error())
	}
	if err != nil {
		s.Log.Error(err, "Could not enrol an unknown machine", "network", c.claims.Host, "mac", c.claims.OrderID)
		return agentapi.Session{}, notReady("the machine could not be enrolled yet")
	}
	return agentapi.Session{Now: s.Clock.Now().UTC(), Host: unnamed, ProgressInterval: agentapi.Duration(ProgressInterval)}, nil
}

// unnamed is what the machine reads for its host, on its console. Which one it is, and of
// what namespace, is not said: a stranger may have told another machine's MAC address or
// serial number to find that out.
const unnamed = "(taken down; a person has to approve it)"

// strangerOrder is the only order that an unknown machine gets: to do nothing.
func strangerOrder(c caller) agentapi.Order {
	return agentapi.Order{Kind: agentapi.Discover, ID: c.claims.OrderID}
}

// strangerLeaves acknowledges the end: the machine goes on as if it had not been asked.
func strangerLeaves() agentapi.Acknowledgement {
	return agentapi.Acknowledgement{Action: agentapi.Restart}
}
