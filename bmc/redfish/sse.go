// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// maxEvent of one server-sent event, in bytes; larger events, such as metric reports, are
	// skipped.
	maxEvent = 256 << 10
	// maxFlow is how many bytes a stream may send in flowTime. With more, events cost more than
	// the polls that they save.
	maxFlow  = 16 << 20
	flowTime = time.Minute
)

// errFlow reports a stream that exceeds maxFlow.
var errFlow = fmt.Errorf("%w: the event stream sends too much", bmc.ErrProtocol)

// sseReader parses a stream of server-sent events (WHATWG HTML §9.2.6). It returns only their data
// and holds at most one event of maxEvent bytes.
type sseReader struct {
	r   *bufio.Reader
	now func() time.Time
	// window is when flow, the count of bytes, started.
	window time.Time
	flow   int64
	// line and data are the current line and the data of the current event; over: the event is
	// too large.
	line, data []byte
	over       bool
	// cr reports that the last byte was a CR, which ends a line with or without an LF.
	cr bool
}

func newSSEReader(r io.Reader, now func() time.Time) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 4<<10), now: now, window: now()}
}

// next returns the data of the next event that has any. The slice is valid until the next call. An
// incomplete event at the end of the stream is dropped.
func (s *sseReader) next() ([]byte, error) {
	s.data = s.data[:0]
	s.over = false
	for {
		b, err := s.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if !s.countByte() {
			return nil, errFlow
		}
		if b == '\n' && s.cr {
			s.cr = false
			continue
		}
		if s.cr = b == '\r'; b != '\r' && b != '\n' {
			s.add(b)
			continue
		}
		if len(s.line) > 0 {
			s.field()
			continue
		}
		if len(s.data) > 0 && !s.over {
			return s.data, nil
		}
		s.data, s.over = s.data[:0], false
	}
}

// countByte counts a byte and reports whether the stream stays within its bounds.
func (s *sseReader) countByte() bool {
	if s.flow++; s.flow <= maxFlow {
		return true
	}
	now := s.now()
	slow := now.Sub(s.window) >= flowTime
	s.window, s.flow = now, 0
	return slow
}

func (s *sseReader) add(b byte) {
	if len(s.line)+len(s.data) >= maxEvent {
		s.over = true
		if len(s.line) > 0 { // the line must stay non-empty
			return
		}
	}
	s.line = append(s.line, b)
}

// field adds a data line to the event and drops other lines.
func (s *sseReader) field() {
	line := s.line
	s.line = s.line[:0]
	const name = "data"
	if len(line) < len(name) || string(line[:len(name)]) != name {
		return
	}
	switch value := line[len(name):]; {
	case len(value) == 0:
		s.data = append(s.data, '\n')
	case value[0] == ':':
		if value = value[1:]; len(value) > 0 && value[0] == ' ' {
			value = value[1:]
		}
		s.data = append(append(s.data, value...), '\n')
	}
}

// eventResource has the used properties of Event (DSP0268).
type eventResource struct {
	Events []struct {
		MessageID string     `json:"MessageId"`
		Severity  string     `json:"MessageSeverity"`
		Old       string     `json:"Severity"` // before Event v1.5
		Origin    originLink `json:"OriginOfCondition"`
	} `json:"Events"`
}

// originLink is a link. Some BMCs send only its path.
type originLink string

// UnmarshalJSON implements json.Unmarshaler.
func (o *originLink) UnmarshalJSON(data []byte) error {
	var l link
	if decode(data, &l) == nil {
		*o = originLink(l.ID)
	}
	if *o == "" && len(data) > 2 && data[0] == '"' {
		*o = originLink(data[1 : len(data)-1])
	}
	return nil
}

const (
	// maxEvents bounds the events that are used of one server-sent event, and maxEventText the
	// length of their texts, in bytes.
	maxEvents    = 64
	maxEventText = 256
)

// parseEvents parses the data of one server-sent event. It returns nothing for other resources,
// such as metric reports.
func parseEvents(data []byte) []bmc.Event {
	var e eventResource
	if decode(bmc.WithoutControls(data), &e) != nil {
		return nil
	}
	var out []bmc.Event
	for _, r := range e.Events {
		severity := healthState(r.Severity)
		if severity == bmc.HealthUnknown {
			severity = healthState(r.Old)
		}
		event := bmc.Event{
			MessageID: bmc.Shorten(r.MessageID, maxEventText), Severity: severity, Origin: bmc.Shorten(string(r.Origin), maxEventText),
		}
		if len(out) < maxEvents && isAboutServer(event) {
			out = append(out, event)
		}
	}
	return out
}

var errNotAStream = errors.New("the answer is not an event stream")
