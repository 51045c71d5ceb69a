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
	// maxEvent of one server-sent event, in bytes: larger ones, such as reports of
	// metrics, are passed over.
	maxEvent = 256 << 10
	// maxFlow bytes in flowTime are the most that a stream may send: who sends more is
	// no BMC that saves us polls.
	maxFlow  = 16 << 20
	flowTime = time.Minute
)

// errFlow reports a stream that sends too much.
var errFlow = fmt.Errorf("%w: the stream of events floods", bmc.ErrProtocol)

// sseReader takes a stream of server-sent events apart (WHATWG HTML §9.2.6). Only
// their data is of interest. It holds one event at most, of maxEvent bytes.
type sseReader struct {
	r   *bufio.Reader
	now func() time.Time
	// window is when the count of flow began.
	window time.Time
	flow   int64
	// line so far, data of the event so far; over: the event is too large.
	line, data []byte
	over       bool
	// cr: the last byte ended a line, and a line feed after it belongs to it.
	cr bool
}

func newSSEReader(r io.Reader, now func() time.Time) *sseReader {
	return &sseReader{r: bufio.NewReaderSize(r, 4<<10), now: now, window: now()}
}

// next returns the data of the next event that has any; the slice is used again. An
// event that is cut off by the stream's end is none.
func (s *sseReader) next() ([]byte, error) {
	s.data = s.data[:0]
	s.over = false
	for {
		b, err := s.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if !s.flows() {
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

// flows counts a byte, and says whether the stream keeps within its bounds.
func (s *sseReader) flows() bool {
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
		if len(s.line) > 0 { // it stays a line that is not empty
			return
		}
	}
	s.line = append(s.line, b)
}

// field takes a line over, if it is of the data.
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

// eventResource is Event (DSP0268) as far as it interests.
type eventResource struct {
	Events []struct {
		MessageID string     `json:"MessageId"`
		Severity  string     `json:"MessageSeverity"`
		Old       string     `json:"Severity"` // before Event v1.5
		Origin    originLink `json:"OriginOfCondition"`
	} `json:"Events"`
}

// originLink is a link, or, as some have it, the path itself.
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
	// maxEvents of one server-sent event that are told, and maxEventText bytes of each
	// of their texts.
	maxEvents    = 64
	maxEventText = 256
)

// parseEvents reads the data of one server-sent event. What is no Event resource, such as
// a report of metrics, has none.
func parseEvents(data []byte) []bmc.Event {
	var e eventResource
	if decode(bmc.WithoutControls(data), &e) != nil {
		return nil
	}
	var out []bmc.Event
	for _, told := range e.Events {
		severity := healthState(told.Severity)
		if severity == bmc.HealthUnknown {
			severity = healthState(told.Old)
		}
		event := bmc.Event{
			MessageID: bmc.Shorten(told.MessageID, maxEventText), Severity: severity, Origin: bmc.Shorten(string(told.Origin), maxEventText),
		}
		if len(out) < maxEvents && ofTheServer(event) {
			out = append(out, event)
		}
	}
	return out
}

var errNotAStream = errors.New("the answer is no stream of events")
