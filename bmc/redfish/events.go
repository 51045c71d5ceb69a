// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

type eventServiceResource struct {
	Enabled *bool  `json:"ServiceEnabled"`
	URI     string `json:"ServerSentEventUri"`
}

// OpenEvents implements bmc.Events with server-sent events (DSP0266, §13.5). The stream uses the
// token of the session and its own connection, so it needs no second session.
func (c *conn) OpenEvents(ctx context.Context) (_ bmc.EventStream, err error) {
	c.begin(ctx)
	defer wrap(&err, "open event stream")
	stream, err := c.openEvents(ctx)
	if err != nil {
		return nil, err
	}
	if earlier := c.streams[c.system]; earlier != nil {
		_ = earlier.Close()
	}
	if c.streams == nil {
		c.streams = map[string]*eventStream{}
	}
	c.streams[c.system] = stream
	return stream, nil
}

func (c *conn) openEvents(ctx context.Context) (*eventStream, error) {
	if c.root.EventService.ID == "" {
		return nil, notSupported("no EventService")
	}
	var service eventServiceResource
	if err := c.get(c.root.EventService.ID, &service); err != nil {
		return nil, err
	}
	if service.URI == "" || (service.Enabled != nil && !*service.Enabled) {
		return nil, notSupported("the EventService has no ServerSentEventUri or is disabled")
	}
	if !isLink(service.URI) {
		return nil, fmt.Errorf("%w: server-sent events at %q", bmc.ErrProtocol, c.short(service.URI, 100))
	}
	if err := bmc.WaitForRateLimit(ctx); err != nil {
		return nil, err
	}
	// The stream outlives the call; ctx bounds only the opening.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	opening := context.AfterFunc(ctx, end)
	resp, transport, err := c.requestEvents(life, service.URI)
	if !opening() { // ctx has ended meanwhile
		if err == nil {
			_ = resp.Body.Close()
		}
		err = fmt.Errorf("read %s: %w", c.short(service.URI, 200), ctx.Err())
	}
	if err != nil {
		end()
		transport.CloseIdleConnections()
		return nil, err
	}
	return newEventStream(resp.Body, func() {
		end()
		transport.CloseIdleConnections()
	}), nil
}

// requestEvents requests the stream over its own transport, since the transport of the calls has a
// single connection.
func (c *conn) requestEvents(ctx context.Context, path string) (*http.Response, *http.Transport, error) {
	transport := c.transport.base.Clone()
	transport.DisableKeepAlives, transport.DisableCompression = true, true
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, transport, fmt.Errorf("%w: server-sent events at %q", bmc.ErrProtocol, c.short(path, 100))
	}
	r.Header.Set("Accept", "text/event-stream")
	c.transport.authorize(r.Header)
	resp, err := transport.RoundTrip(r)
	if err != nil {
		c.transport.last = exchange{} // no answer
		return nil, transport, c.failure(read, "read "+c.short(path, 200), err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == "text/event-stream" {
		return resp, transport, nil
	}
	_ = resp.Body.Close()
	return nil, transport, fmt.Errorf("read %s: %w", c.short(path, 200), streamRefusal(resp))
}

// streamRefusal classifies an answer that is not a stream.
func streamRefusal(resp *http.Response) error {
	sentinel := bmc.ErrProtocol
	switch resp.StatusCode {
	case http.StatusOK:
		return fmt.Errorf("%w: %w", bmc.ErrNotSupported, errNotAStream)
	case http.StatusUnauthorized:
		sentinel = bmc.ErrUnauthorized
	case http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented:
		sentinel = bmc.ErrNotSupported
	default:
		if resp.StatusCode >= http.StatusBadRequest { // BMCs without a free stream answer in many ways
			sentinel = &bmc.BusyError{RetryAfter: bmc.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())}
		}
	}
	return fmt.Errorf("%w: BMC answered %d", sentinel, resp.StatusCode)
}

// eventStream is an open stream.
type eventStream struct {
	reader *sseReader
	// queue has the events that were read but not returned yet.
	queue []bmc.Event

	once sync.Once
	body io.Closer
	end  func()
}

func newEventStream(body io.ReadCloser, end func()) *eventStream {
	return &eventStream{reader: newSSEReader(body, time.Now), body: body, end: end}
}

// Next implements bmc.EventStream.
func (s *eventStream) Next() (bmc.Event, error) {
	for len(s.queue) == 0 {
		data, err := s.reader.next()
		if err != nil {
			return bmc.Event{}, streamEnd(err)
		}
		s.queue = parseEvents(data)
	}
	event := s.queue[0]
	s.queue = s.queue[1:]
	return event, nil
}

// streamEnd returns the error of a stream that has ended. It never contains text of the BMC.
func streamEnd(err error) error {
	if errors.Is(err, bmc.ErrProtocol) {
		return err
	}
	return fmt.Errorf("%w: the event stream ended", bmc.ErrUnreachable)
}

// Close implements bmc.EventStream.
func (s *eventStream) Close() error {
	s.once.Do(func() {
		s.end()
		_ = s.body.Close()
	})
	return nil
}

// isAboutServer reports whether an event is about the server rather than the use of the BMC: Ingot's
// own logins must not cause a poll.
func isAboutServer(e bmc.Event) bool {
	for _, service := range []string{"SessionService", "AccountService", "EventService", "TaskService", "TelemetryService"} {
		if strings.HasPrefix(e.Origin, serviceRoot+"/"+service) {
			return false
		}
	}
	return true
}
