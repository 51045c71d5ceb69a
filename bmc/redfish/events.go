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

// OpenEvents implements bmc.Events by server-sent events (DSP0266, §13.5). The stream
// goes by the session's token, over a connection of its own: a BMC without a session
// to spare has none to lose.
func (c *conn) OpenEvents(ctx context.Context) (bmc.EventStream, error) {
	c.begin(ctx)
	stream, err := c.openEvents(ctx)
	if err != nil {
		return nil, fmt.Errorf("open stream of events: %w", err)
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
		return nil, lacking("no EventService")
	}
	var service eventServiceResource
	if err := c.get(c.root.EventService.ID, &service); err != nil {
		return nil, err
	}
	if service.URI == "" || (service.Enabled != nil && !*service.Enabled) {
		return nil, lacking("the EventService has no ServerSentEventUri, or is switched off")
	}
	if !isLink(service.URI) {
		return nil, fmt.Errorf("%w: server-sent events at %q", bmc.ErrProtocol, c.short(service.URI, 100))
	}
	if err := bmc.Pace(ctx); err != nil {
		return nil, err
	}
	// The stream outlives the call, whose context bounds the opening only.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	opening := context.AfterFunc(ctx, end)
	resp, transport, err := c.requestEvents(life, service.URI)
	if !opening() { // too late
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

// requestEvents asks for the stream, over a transport of its own: that of the calls
// has one connection, which the stream would keep.
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

// streamRefusal classes an answer that is no stream.
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
		if resp.StatusCode >= http.StatusBadRequest { // whoever takes no more streams says it in many ways
			sentinel = &bmc.BusyError{RetryAfter: bmc.ParseRetryAfter(resp.Header.Get("Retry-After"), time.Now())}
		}
	}
	return fmt.Errorf("%w: BMC answered %d", sentinel, resp.StatusCode)
}

// eventStream is an open stream.
type eventStream struct {
	reader *sseReader
	// read ahead, and not told yet.
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

// streamEnd is the error of a stream that has ended: never a BMC's text.
func streamEnd(err error) error {
	if errors.Is(err, bmc.ErrProtocol) {
		return err
	}
	return fmt.Errorf("%w: the stream of events has ended", bmc.ErrUnreachable)
}

// Close implements bmc.EventStream.
func (s *eventStream) Close() error {
	s.once.Do(func() {
		s.end()
		_ = s.body.Close()
	})
	return nil
}

// ofTheServer leaves out what a BMC tells of those who use it: Ingot's own logins
// would have it looked at.
func ofTheServer(e bmc.Event) bool {
	for _, service := range []string{"SessionService", "AccountService", "EventService", "TaskService", "TelemetryService"} {
		if strings.HasPrefix(e.Origin, serviceRoot+"/"+service) {
			return false
		}
	}
	return true
}
