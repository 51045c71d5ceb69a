// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// qmp is a client of QEMU's machine protocol on one connection.
type qmp struct {
	conn net.Conn
	// onEvent gets each event, in the reader's goroutine: it must not call
	// QEMU itself.
	onEvent func(qmpEvent)
	// done is closed when the reader has ended, after the last event.
	done chan struct{}

	mu      sync.Mutex
	next    int
	waiting map[int]chan qmpReply
	err     error
}

// qmpMessage is any message from QEMU: greeting, reply or event.
type qmpMessage struct {
	ID     *int            `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	qmpEvent
}

// qmpEvent is what QEMU tells unasked.
type qmpEvent struct {
	Name string `json:"event"`
	Data struct {
		Reason string `json:"reason"`
	} `json:"data"`
}

type qmpReply struct {
	value json.RawMessage
	err   error
}

// dialQMP connects as soon as the socket is there, until ctx ends or the
// process has.
func dialQMP(ctx context.Context, path string, ended <-chan struct{}, onEvent func(qmpEvent)) (*qmp, error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			q := &qmp{conn: conn, onEvent: onEvent, done: make(chan struct{}), waiting: map[int]chan qmpReply{}}
			go q.read()
			if _, err := q.call(ctx, "qmp_capabilities", nil); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
			return q, nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return nil, errors.New("QEMU ended before its control socket was there")
		case <-ctx.Done():
			return nil, fmt.Errorf("connect to QEMU: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// read passes replies to their callers and events on, until the connection
// ends.
func (q *qmp) read() {
	defer close(q.done)
	defer q.close()
	dec := json.NewDecoder(q.conn)
	for {
		var m qmpMessage
		if err := dec.Decode(&m); err != nil {
			q.fail(fmt.Errorf("read from QEMU: %w", err))
			return
		}
		switch {
		case m.Name != "":
			q.onEvent(m.qmpEvent)
		case m.ID != nil:
			q.deliver(*m.ID, m)
		}
	}
}

func (q *qmp) deliver(id int, m qmpMessage) {
	q.mu.Lock()
	ch := q.waiting[id]
	delete(q.waiting, id)
	q.mu.Unlock()
	if ch == nil {
		return
	}
	r := qmpReply{value: m.Return}
	if m.Error != nil {
		r.err = fmt.Errorf("%s: %s", m.Error.Class, m.Error.Desc)
	}
	ch <- r
}

func (q *qmp) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = err
	for id, ch := range q.waiting {
		ch <- qmpReply{err: err}
		delete(q.waiting, id)
	}
}

// call executes one command.
func (q *qmp) call(ctx context.Context, command string, arguments any) (json.RawMessage, error) {
	q.mu.Lock()
	if q.err != nil {
		q.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", command, q.err)
	}
	q.next++
	id, ch := q.next, make(chan qmpReply, 1)
	q.waiting[id] = ch
	msg := map[string]any{"execute": command, "id": id}
	if arguments != nil {
		msg["arguments"] = arguments
	}
	b, err := json.Marshal(msg)
	if err == nil {
		_ = q.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
		_, err = q.conn.Write(b)
	}
	q.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("send %s to QEMU: %w", command, err)
	}
	select {
	case r := <-ch:
		if r.err != nil {
			return nil, fmt.Errorf("%s: %w", command, r.err)
		}
		return r.value, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", command, ctx.Err())
	}
}

// close ends the connection, and with it the reader and all calls.
func (q *qmp) close() { _ = q.conn.Close() }
