// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"sync"
)

// Event is a message that a BMC sent on an event stream (Redfish Event.Events, DSP0268).
// Its texts are the BMC's, each at most 256 bytes.
type Event struct {
	// MessageID names the message and its registry: "ResourceEvent.1.3.ResourcePoweredOn".
	MessageID string
	// Severity is HealthUnknown if the BMC reports none.
	Severity HealthState
	// Origin is the BMC's own name of the affected resource; may be empty.
	Origin string
}

// Events opens the event stream of a BMC.
type Events interface {
	// OpenEvents opens a stream on the connection's session. ctx bounds only the opening:
	// the stream ends with its Close, with the session, or when the BMC ends it. A session
	// has at most one stream per system. It returns ErrNotSupported if the BMC has no event
	// streams, and ErrBusy if all of them are in use.
	OpenEvents(ctx context.Context) (EventStream, error)
}

// EventStream is an open stream. It may be used concurrently with its connection.
type EventStream interface {
	// Next waits for the next event. Any error ends the stream.
	Next() (Event, error)
	// Close ends the stream and a waiting Next. A second Close does nothing.
	Close() error
}

// OpenEvents keeps the session as long as the stream; the BMC is free for other calls meanwhile.
func (l *lease) OpenEvents(ctx context.Context) (EventStream, error) {
	stream, err := callFor(ctx, l, CallOpenEvents, Conn.OpenEvents)
	if err != nil {
		return nil, err
	}
	return l.pool.holdSession(l.entry, stream), nil
}

// heldStream releases its session when it ends.
type heldStream struct {
	EventStream
	release func()
}

func (s *heldStream) Close() error {
	err := s.EventStream.Close()
	s.release()
	return err
}

// holdSession keeps the entry's session for a stream. The entry's lock is held.
func (p *Pool) holdSession(e *entry, stream EventStream) EventStream {
	origin := originOf(e.target.Address)
	p.mu.Lock()
	defer p.mu.Unlock()
	e.held++
	return &heldStream{EventStream: stream, release: sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		e.held--
		if p.entries[origin] == e {
			p.startIdleTimer(origin, e)
		}
	})}
}

func (p *Pool) isHeld(e *entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return e.held > 0
}
