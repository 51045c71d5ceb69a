// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"sync"
)

// Event is what a BMC told by itself (Redfish Event.Events, DSP0268). Its texts are
// the BMC's, each at most 256 bytes.
type Event struct {
	// MessageID names the message and its registry: "ResourceEvent.1.3.ResourcePoweredOn".
	MessageID string
	// Severity is HealthUnknown where the BMC gives none.
	Severity HealthState
	// Origin is the BMC's own name of what it is about; may be empty.
	Origin string
}

// Events opens the stream of what a BMC tells by itself.
type Events interface {
	// OpenEvents opens a stream on the connection's session. ctx bounds the opening
	// only: the stream ends with its Close, with the session, or when the BMC ends it.
	// A session has one stream at most for each of its systems. ErrNotSupported where
	// the BMC has none, ErrBusy when all that it has are taken.
	OpenEvents(ctx context.Context) (EventStream, error)
}

// EventStream is an open stream. It may be used while its connection is.
type EventStream interface {
	// Next waits for the next event. Any error is the stream's end.
	Next() (Event, error)
	// Close ends the stream, and a Next that waits. A second Close does nothing.
	Close() error
}

// OpenEvents implements Events. The session is kept as long as the stream is; the
// BMC is free for other calls meanwhile.
func (l *lease) OpenEvents(ctx context.Context) (EventStream, error) {
	stream, err := ask(ctx, l, CallOpenEvents, Conn.OpenEvents)
	if err != nil {
		return nil, err
	}
	return l.pool.hold(l.entry, stream), nil
}

// heldStream gives its session back with its end.
type heldStream struct {
	EventStream
	once sync.Once
	done func()
}

// Close implements EventStream.
func (s *heldStream) Close() error {
	err := s.EventStream.Close()
	s.once.Do(s.done)
	return err
}

// hold keeps the entry's session for a stream. The entry's lock is held.
func (p *Pool) hold(e *entry, stream EventStream) EventStream {
	address := placeOf(e.target.Address)
	p.mu.Lock()
	defer p.mu.Unlock()
	e.held++
	return &heldStream{EventStream: stream, done: func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		e.held--
		if p.entries[address] == e {
			p.rest(address, e)
		}
	}}
}

func (p *Pool) isHeld(e *entry) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return e.held > 0
}

// speaks says whether the outcome of a call tells how a BMC fares. The end of a
// session says nothing of what is to come, and a BMC without a stream to spare, or
// whose old sessions cannot be read, answers all the same.
func (n CallName) speaks() bool {
	return n != CallClose && n != CallOpenEvents && n != CallSweep
}
