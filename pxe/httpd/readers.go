// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"io"
	"time"
)

const (
	// minReadRate is the minimal rate of all readers of an image together, in bytes per
	// second. Below it the image may be evicted when its space is needed. An agent that reads
	// more slowly does not get 2 GiB within its timeout of two hours.
	minReadRate = 256 << 10
	// minReadTime is the minimal time over which the rate is measured, and the minimal duration
	// of a read before it is ended.
	minReadTime = 30 * time.Second
)

// readers are the open files of an image. Its users must hold the cache's mu.
type readers struct {
	open        map[*OpenImage]bool // true if the read was ended
	since       time.Time           // start of the measurement
	closedBytes int64               // bytes that closed readers have read since then
}

func (r *readers) add(o *OpenImage, now time.Time) {
	if len(r.open) == 0 {
		*r = readers{open: map[*OpenImage]bool{}, since: now}
	}
	o.opened = now
	r.open[o] = false
}

func (r *readers) remove(o *OpenImage) {
	r.closedBytes += o.newBytes()
	delete(r.open, o)
}

// newBytes returns the number of bytes read since the last call. sendfile moves the offset of the
// file, too.
func (o *OpenImage) newBytes() int64 {
	at, err := o.Seek(0, io.SeekCurrent)
	if err != nil { // the read was ended
		return 0
	}
	took := at - o.at
	if o.at = at; took < 0 { // restarted, or another range
		took = at
	}
	return took
}

// endSlow ends the reads that are older than minReadTime if all reads together are slower than
// minReadRate. It returns how many it ended.
func (r *readers) endSlow(now time.Time) (ended int) {
	measured := now.Sub(r.since)
	if len(r.open) == 0 || measured < minReadTime {
		return 0
	}
	took := r.closedBytes
	for o := range r.open {
		took += o.newBytes()
	}
	r.since, r.closedBytes = now, 0
	if float64(took) >= minReadRate*measured.Seconds() {
		return 0
	}
	for o, done := range r.open {
		if !done && now.Sub(o.opened) >= minReadTime {
			_ = o.File.Close() // fails the next send and closes the connection
			r.open[o] = true
			ended++
		}
	}
	return ended
}

// hasEndingRead reports whether an ended read has not been closed yet.
func (r *readers) hasEndingRead() bool {
	for _, ended := range r.open {
		if ended {
			return true
		}
	}
	return false
}
