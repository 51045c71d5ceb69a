// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// keepFor is how long the answers of a read that was cut off are good for: longer
	// than a BMC at rest goes without a poll.
	keepFor = 10 * time.Minute
	// maxKept bounds them, in bytes. A hundred items of firmware are half of it.
	maxKept = 1 << 20
)

// longRead is a read of many resources. BMCs are known that take three seconds for each,
// and then the time of a call is over before the last; what was answered is kept, and
// the next try asks for the rest.
type longRead struct {
	call    bmc.CallName
	last    time.Time
	answers map[string]kept
	// room is what is left of maxKept.
	room int
	// news counts the answers of the try in progress.
	news int
}

// kept is what was answered to the read of a path: a body, or that there is none to be had.
type kept struct {
	body []byte
	err  error
}

// inParts makes a read of many resources, each by c.read. One that its deadline cut off
// ends with bmc.ErrUnfinished, unless not a single resource was added to those that are
// known; the next try goes on from there, if nothing was written meanwhile.
func (c *conn) inParts(call bmc.CallName, read func() error) error {
	r := c.unfinished
	if r == nil || r.call != call {
		r = &longRead{call: call, answers: map[string]kept{}, room: maxKept}
	}
	r.news = 0
	c.reading, c.unfinished = r, nil
	err := read()
	c.reading = nil
	if !errors.Is(err, bmc.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
		return err // nil, or what may have come of an answer that is another the next time
	}
	r.last = time.Now()
	c.unfinished = r
	if r.news == 0 {
		return err
	}
	return fmt.Errorf("%w: %d answers are there, the next try goes on from them", bmc.ErrUnfinished, len(r.answers))
}

// known is what the read in progress was answered before. It counts as a request, so that
// one that leads in circles comes to its end.
func (c *conn) known(path string) (kept, bool) {
	if c.reading == nil || c.transport.left <= 0 {
		return kept{}, false
	}
	k, ok := c.reading.answers[path]
	if ok {
		c.transport.left--
	}
	return k, ok
}

// keep notes an answer. What may be another the next time is none: a fault, and that the
// system is not there, as on a BMC that starts.
func (c *conn) keep(path string, body []byte, err error) {
	r := c.reading
	if r == nil || len(body) > r.room || err != nil && (optional(err) != nil || path == c.system) {
		return
	}
	r.room -= len(body)
	r.news++
	r.answers[path] = kept{body: body, err: err}
}

// begin starts a call.
func (c *conn) begin(ctx context.Context) {
	c.transport.begin(ctx)
	if c.unfinished != nil && time.Since(c.unfinished.last) > keepFor {
		c.unfinished = nil
	}
}
