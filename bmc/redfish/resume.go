// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// keepFor is how long the answers of a read that was cut off are good for, from the
	// first on: a BMC at rest is polled some times meanwhile.
	keepFor = 30 * time.Minute
	// maxKept bounds those of all reads, in bytes. A hundred items of firmware are half of
	// it.
	maxKept = 1 << 20
)

// longRead is a read of many resources. BMCs are known that take three seconds for each,
// and then the time of a call is over before the last; what was answered is kept, and
// the next try asks for the rest.
type longRead struct {
	begun   time.Time
	answers map[string]kept
	bytes   int
	// try is the number of the one in progress, and news counts its answers.
	try, news int
}

// longReads are those that were cut off, by the system and the call: other calls, and
// those of other systems of the BMC, come between.
type longReads map[longReadOf]*longRead

type longReadOf struct {
	system string
	call   bmc.CallName
}

// kept is what was answered to the read of a path: a body, or that there is none to be had.
type kept struct {
	body []byte
	err  error
	try  int
}

// earlier says whether a path was read by a try before the one in progress.
func (r *longRead) earlier(path string) bool {
	k, ok := r.answers[path]
	return ok && k.try < r.try
}

// inParts makes a read of many resources, each by c.read. One that its deadline cut off
// ends with bmc.ErrUnfinished, unless not a single resource was added to those that are
// known; the next try goes on from there, if nothing was written meanwhile.
func (c *conn) inParts(call bmc.CallName, read func() error) error {
	of := longReadOf{c.system, call}
	r := c.unfinished[of]
	if r == nil {
		r = &longRead{begun: time.Now(), answers: map[string]kept{}}
	}
	r.try, r.news = r.try+1, 0
	c.reading = r
	err := read()
	c.reading = nil
	delete(c.unfinished, of)
	if !errors.Is(err, bmc.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
		return err // nil, or what may have come of an answer that is another the next time
	}
	if c.unfinished == nil {
		c.unfinished = longReads{}
	}
	c.unfinished[of] = r
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

// keep notes an answer, or that there is none of the path; not of the system's, which a BMC
// that starts does not have yet. Other errors are asked about again.
func (c *conn) keep(path string, body []byte, err error) {
	r := c.reading
	if r == nil || err != nil && (!errors.Is(err, bmc.ErrNotSupported) || path == c.system) || c.keptBytes()+len(body) > maxKept {
		return
	}
	r.bytes += len(body)
	r.news++
	r.answers[path] = kept{body: body, err: err, try: r.try}
}

// keptBytes are those of all reads.
func (c *conn) keptBytes() int {
	sum := c.reading.bytes
	for _, r := range c.unfinished {
		if r != c.reading {
			sum += r.bytes
		}
	}
	return sum
}

// begin starts a call.
func (c *conn) begin(ctx context.Context) {
	c.transport.begin(ctx)
	maps.DeleteFunc(c.unfinished, func(_ longReadOf, r *longRead) bool { return time.Since(r.begun) > keepFor })
}
