// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"io"
	"time"
)

const (
	// slowestRead is the least that all who read an image have to take together, in bytes per
	// second, for the image to stay when its room is needed. An agent that reads more slowly
	// does not get 2 GiB in the two hours after which it gives up.
	slowestRead = 256 << 10
	// readFor is over which time the rate is measured at the least, and how long a read is
	// left alone.
	readFor = 30 * time.Second
)

// readers are those who have an image open. Its users hold the cache's mu.
type readers struct {
	open map[*OpenImage]bool // true: it was ended
	// since is when the measure began, and gone what readers that have left took since then.
	since time.Time
	gone  int64
}

func (r *readers) add(o *OpenImage, now time.Time) {
	if len(r.open) == 0 {
		*r = readers{open: map[*OpenImage]bool{}, since: now}
	}
	o.opened = now
	r.open[o] = false
}

func (r *readers) remove(o *OpenImage) {
	r.gone += o.took()
	delete(r.open, o)
}

// took is how far the file was read since the last call, in bytes. The kernel sends the file
// by itself, and moves its offset.
func (o *OpenImage) took() int64 {
	at, err := o.Seek(0, io.SeekCurrent)
	if err != nil { // it was ended
		return 0
	}
	took := at - o.at
	if o.at = at; took < 0 { // it began again, or with another range
		took = at
	}
	return took
}

// endSlow ends the reads of an image that are older than readFor, if all together take less
// than slowestRead, and returns how many those are.
func (r *readers) endSlow(now time.Time) (ended int) {
	measured := now.Sub(r.since)
	if len(r.open) == 0 || measured < readFor {
		return 0
	}
	took := r.gone
	for o := range r.open {
		took += o.took()
	}
	r.since, r.gone = now, 0
	if float64(took) >= slowestRead*measured.Seconds() {
		return 0
	}
	for o, done := range r.open {
		if !done && now.Sub(o.opened) >= readFor {
			_ = o.File.Close() // the next piece fails, and with it the connection
			r.open[o] = true
			ended++
		}
	}
	return ended
}

// ending reports whether a read was ended and has not left yet.
func (r *readers) ending() bool {
	for _, done := range r.open {
		if done {
			return true
		}
	}
	return false
}
