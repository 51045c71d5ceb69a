// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// restedFor is how long an image is unused before a namespace that has more than its
	// share of the cache may remove it, whichever namespace it is for.
	restedFor = 10 * time.Minute
	// ownersFor is how long the cache believes what claims said of an image.
	ownersFor = 10 * time.Second
	// wayTimeout is how long a fetch waits for room that others were told to leave, and
	// wayPoll how often it looks.
	wayTimeout = 30 * time.Second
	wayPoll    = 50 * time.Millisecond
)

// errGivesWay ends a fetch whose namespace has more than its share of the cache.
var errGivesWay = fmt.Errorf("%w: another namespace has less than its share of it", ErrNoRoom)

// begin notes how a fetch can be called off.
func (c *ImageCache) begin(checksum string, callOff context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images[checksum].callOff = callOff // nothing removes it while it is queued
}

// settle turns what a fetch has reserved into the size of its image; 0 after a
// failure.
func (c *ImageCache) settle(checksum string, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if im, ok := c.images[checksum]; ok {
		im.reserved, im.size, im.callOff = 0, size, nil
	}
}

// fits reports whether so many bytes could be had for an image now, and removes nothing.
func (c *ImageCache) fits(checksum string, n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > c.cfg.MaxBytes {
		return fmt.Errorf("%w of %d bytes", errTooLarge, c.cfg.MaxBytes)
	}
	owners := c.ownersOf(checksum, c.images[checksum])
	if _, enough := c.victims(n, owners); !enough && !c.makeWay(n, owners) {
		return ErrNoRoom
	}
	return nil
}

// reserve takes room for n more bytes of an image, by removing images that have no reader. If
// that is not enough, it asks others to leave, and coming reports whether some will.
func (c *ImageCache) reserve(checksum string, n int64) (done, coming bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	im := c.images[checksum]
	owners := c.ownersOf(checksum, im)
	if !c.evict(n, owners) {
		return false, c.makeWay(n, owners)
	}
	im.reserved += n
	return true, false
}

// ownersOf are the namespaces that an image is for; none: no claim names it any more.
func (c *ImageCache) ownersOf(checksum string, im *image) []string {
	if now := c.cfg.Now(); im.ownersAt.IsZero() || now.Sub(im.ownersAt) >= ownersFor {
		source, named := c.names.source(checksum)
		im.own(source.Namespaces, named, now)
	}
	return im.owners
}

// own notes the namespaces that an image is for.
func (im *image) own(namespaces []string, named bool, now time.Time) {
	im.owners, im.ownersAt = namespaces, now
	if named && len(namespaces) == 0 { // a directory without namespaces
		im.owners = []string{""}
	}
}

// usage is what namespaces have of the cache.
type usage struct {
	used  map[string]int64
	share int64
}

// usage divides the cache among the namespaces of its images, and the bytes of an image
// among those that it is for.
func (c *ImageCache) usage() usage {
	u := usage{used: map[string]int64{}}
	for checksum, im := range c.images {
		owners := c.ownersOf(checksum, im)
		for _, owner := range owners {
			u.used[owner] += (im.size + im.reserved) / int64(len(owners))
		}
	}
	u.share = c.cfg.MaxBytes / int64(max(1, len(u.used)))
	return u
}

// within reports whether one of the namespaces keeps to its share with n more bytes.
func (u usage) within(owners []string, n int64) bool {
	return slices.ContainsFunc(owners, func(o string) bool { return u.used[o]+n <= u.share })
}

// beyond reports whether all of the namespaces have more than their share.
func (u usage) beyond(owners []string) bool {
	return !slices.ContainsFunc(owners, func(o string) bool { return u.used[o] <= u.share })
}

// victims are the images to remove for n more bytes for these namespaces, in this order:
// those that no claim names, then those of namespaces that have more than their share and the
// namespaces' own, then those of others; each time the least recently used first. Namespaces
// that have their share remove those of others only when they were not used for restedFor.
func (c *ImageCache) victims(n int64, owners []string) (list []string, enough bool) {
	n -= c.cfg.MaxBytes - c.used()
	if n <= 0 {
		return nil, true
	}
	u, now := c.usage(), c.cfg.Now()
	within := u.within(owners, n)
	ranks := map[string]int{}
	for checksum, im := range c.images {
		if !im.idle() {
			continue
		}
		theirs := c.ownersOf(checksum, im)
		own := !slices.ContainsFunc(theirs, func(o string) bool { return !slices.Contains(owners, o) })
		switch {
		case len(theirs) == 0:
			ranks[checksum] = 0
		case own && !within, u.beyond(theirs):
			ranks[checksum] = 1
		case own:
			ranks[checksum] = 2
		case within || now.Sub(im.lastUsed) >= restedFor:
			ranks[checksum] = 3
		default:
			continue
		}
		list = append(list, checksum)
	}
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(ranks[a], ranks[b]), c.images[a].lastUsed.Compare(c.images[b].lastUsed), cmp.Compare(a, b))
	})
	for i, checksum := range list {
		if n -= c.images[checksum].size; n <= 0 {
			return list[:i+1], true
		}
	}
	return list, false
}

// evict removes images until n bytes fit next to the others, and reports whether they do. It
// removes none where that would not be enough.
func (c *ImageCache) evict(n int64, owners []string) bool {
	list, enough := c.victims(n, owners)
	if !enough && n > 0 {
		return false
	}
	for _, checksum := range list {
		if !c.remove(checksum) {
			return false
		}
	}
	return enough
}

// remove an idle image.
func (c *ImageCache) remove(checksum string) bool {
	if err := os.Remove(c.path(checksum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Warn("old image not removed", "image", checksum, "error", err)
		return false
	}
	c.cfg.Log.Info("old image removed", "image", checksum)
	delete(c.images, checksum)
	c.saveIndex()
	return true
}

// makeWay asks for room that is in use: it ends reads that are too slow to be worth it, and
// for namespaces within their share the largest fetch of one that has more. It reports whether
// room will come of that, or of what was asked before.
func (c *ImageCache) makeWay(n int64, owners []string) (coming bool) {
	now := c.cfg.Now()
	for checksum, im := range c.images {
		if ended := im.readers.endSlow(now); ended > 0 {
			c.cfg.Log.Info("ended slow reads of an image, whose room is needed", "image", checksum, "reads", ended)
		}
		coming = coming || im.readers.ending() || im.reserved > 0 && im.callOff == nil
	}
	if coming {
		return true
	}
	u, largest := c.usage(), ""
	if !u.within(owners, n) {
		return false
	}
	for checksum, im := range c.images {
		if im.callOff != nil && im.reserved > 0 && u.beyond(c.ownersOf(checksum, im)) && (largest == "" || im.reserved > c.images[largest].reserved) {
			largest = checksum
		}
	}
	if largest == "" {
		return false
	}
	im := c.images[largest]
	im.callOff(errGivesWay)
	im.callOff = nil
	return true
}

// idle reports whether the image is on the disk, and neither read nor being verified.
func (im *image) idle() bool {
	return im.size > 0 && len(im.readers.open) == 0 && im.state != stateQueued
}

func (c *ImageCache) used() int64 {
	var sum int64
	for _, im := range c.images {
		sum += im.size + im.reserved
	}
	return sum
}

// roomWriter writes an image for which room is taken as it comes, beyond what was
// reserved before.
type roomWriter struct {
	ctx      context.Context
	cache    *ImageCache
	checksum string
	io.Writer
	// reserved is all that was taken, written all that has come.
	reserved, written int64
}

// Write implements io.Writer. A disk that is full, although the cache's bound is
// not reached, is made emptier.
func (w *roomWriter) Write(p []byte) (int, error) {
	if more := w.written + int64(len(p)) - w.reserved; more > 0 {
		if err := w.reserve(more); err != nil {
			return 0, err
		}
	}
	done := 0
	for {
		n, err := w.Writer.Write(p[done:])
		done += n
		w.written += int64(n)
		if !errors.Is(err, syscall.ENOSPC) {
			return done, err
		}
		if !w.cache.makeEmptier(w.checksum) {
			return done, fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
	}
}

func (w *roomWriter) reserve(n int64) error {
	if w.reserved+n > w.cache.cfg.MaxBytes {
		return fmt.Errorf("%w of %d bytes", errTooLarge, w.cache.cfg.MaxBytes)
	}
	for deadline := time.Now().Add(wayTimeout); ; {
		done, coming := w.cache.reserve(w.checksum, n)
		if done {
			w.reserved += n
			return nil
		}
		if !coming || time.Now().After(deadline) {
			return ErrNoRoom
		}
		select {
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		case <-time.After(wayPoll):
		}
	}
}

// makeEmptier removes one image from a disk that is full, if there is one to remove.
func (c *ImageCache) makeEmptier(checksum string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, _ := c.victims(c.cfg.MaxBytes-c.used()+1, c.ownersOf(checksum, c.images[checksum]))
	return len(list) > 0 && c.remove(list[0])
}
