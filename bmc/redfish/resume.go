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
	// keepFor is how long the answers of an unfinished read are valid, from the first answer
	// on. A BMC in backoff is polled a few times in that time.
	keepFor = 30 * time.Minute
	// maxKept bounds the answers of all unfinished reads, in bytes. A hundred firmware items
	// need half of it.
	maxKept = 1 << 20
)

// longRead is a read of many resources. Some BMCs take three seconds for each, and the deadline of
// the call passes before the last. The next try keeps the answers and reads the rest.
type longRead struct {
	begun   time.Time
	answers map[string]kept
	bytes   int
	// try is the number of the current try, and news counts its answers.
	try, news int
}

// longReads are reads that a slow BMC does not finish within one call.
type longReads map[longReadOf]*longRead

type longReadOf struct {
	system string
	call   bmc.CallName
}

// kept is the answer for a path: a body, or the error that it does not exist.
type kept struct {
	body []byte
	err  error
	try  int
}

// readBefore reports whether a path was read by an earlier try.
func (r *longRead) readBefore(path string) bool {
	k, ok := r.answers[path]
	return ok && k.try < r.try
}

// resumable makes a read of many resources that uses c.read for each. If the deadline passes and the
// read got at least one new answer, resumable returns bmc.ErrUnfinished. The next try uses the
// answers, unless a write came in between.
func (c *conn) resumable(call bmc.CallName, read func() error) error {
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
		return err // nil, or an error that may depend on the kept answers
	}
	if c.unfinished == nil {
		c.unfinished = longReads{}
	}
	c.unfinished[of] = r
	if r.news == 0 {
		return err
	}
	return fmt.Errorf("%w: the next try reads the rest", bmc.ErrUnfinished)
}

// known returns the answer of an earlier try. It counts as a request, so that links in a circle
// come to an end.
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

// keep stores an answer, or that the path does not exist. It does not store that for the system,
// which is missing while a BMC starts. Other errors are not stored.
func (c *conn) keep(path string, body []byte, err error) {
	r := c.reading
	if r == nil || err != nil && (!errors.Is(err, bmc.ErrNotSupported) || path == c.system) || c.keptBytes()+len(body) > maxKept {
		return
	}
	r.bytes += len(body)
	r.news++
	r.answers[path] = kept{body: body, err: err, try: r.try}
}

// keptBytes returns the size of the answers of all reads.
func (c *conn) keptBytes() int {
	sum := c.reading.bytes
	for _, r := range c.unfinished {
		if r != c.reading {
			sum += r.bytes
		}
	}
	return sum
}

// begin starts a call and drops old answers.
func (c *conn) begin(ctx context.Context) {
	c.transport.begin(ctx)
	maps.DeleteFunc(c.unfinished, func(_ longReadOf, r *longRead) bool { return time.Since(r.begun) > keepFor })
}
