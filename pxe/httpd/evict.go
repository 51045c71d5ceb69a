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
	// minIdleTime is how long an image must be unused before a namespace that exceeds its
	// share may evict another namespace's image.
	minIdleTime = 10 * time.Minute
	// ownersTTL is how long the owners of an image are cached.
	ownersTTL = 10 * time.Second
	// spaceTimeout limits the wait of a fetch for space that others are to free, and spacePoll
	// is the interval of its checks.
	spaceTimeout = 30 * time.Second
	spacePoll    = 50 * time.Millisecond
)

// errPreempted ends a fetch whose namespace exceeds its share of the cache.
var errPreempted = fmt.Errorf("%w: another namespace uses less than its share", ErrCacheFull)

// endReservation ends the reservation of a fetch. Parameter size is the size of the image, or 0 after
// a failure.
func (c *ImageCache) endReservation(checksum string, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if im, ok := c.images[checksum]; ok {
		im.reserved, im.size, im.cancelFetch = 0, size, nil
	}
}

// canReserve returns nil if n bytes could be reserved for an image now. It evicts nothing.
func (c *ImageCache) canReserve(checksum string, n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > c.cfg.MaxBytes {
		return fmt.Errorf("%w of %d bytes", errTooLarge, c.cfg.MaxBytes)
	}
	owners := c.ownersOf(checksum, c.images[checksum])
	if _, enough := c.victims(n, owners); !enough && !c.requestSpace(n, owners) {
		return ErrCacheFull
	}
	return nil
}

// reserve reserves n more bytes for an image and evicts images without readers for that. If
// that is not enough, it requests space in use; pending reports whether some will be freed.
func (c *ImageCache) reserve(checksum string, n int64) (done, pending bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	im := c.images[checksum]
	owners := c.ownersOf(checksum, im)
	if !c.evict(n, owners) {
		return false, c.requestSpace(n, owners)
	}
	im.reserved += n
	return true, false
}

// ownersOf returns the namespaces whose claims name an image.
func (c *ImageCache) ownersOf(checksum string, im *image) []string {
	if now := c.cfg.Now(); im.ownersAt.IsZero() || now.Sub(im.ownersAt) >= ownersTTL {
		source, named := c.references.source(checksum)
		im.setOwners(source.Namespaces, named, now)
	}
	return im.owners
}

func (im *image) setOwners(namespaces []string, named bool, now time.Time) {
	im.owners, im.ownersAt = namespaces, now
	if named && len(namespaces) == 0 { // a directory without namespaces
		im.owners = []string{""}
	}
}

// usage is the disk usage in bytes by namespace, and each namespace's share.
type usage struct {
	used  map[string]int64
	share int64
}

// usage computes the disk usage. Namespaces that share an image each count for a part of it.
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

func (u usage) withinShare(owners []string, n int64) bool {
	return slices.ContainsFunc(owners, func(o string) bool { return u.used[o]+n <= u.share })
}

func (u usage) exceedsShare(owners []string) bool {
	return !slices.ContainsFunc(owners, func(o string) bool { return u.used[o] <= u.share })
}

// victims returns the images to evict for n more bytes of the owners, in this order:
//
//  1. images that no claim names;
//  2. images of namespaces that exceed their share, and the owners' own if these would;
//  3. the owners' own images;
//  4. images of others. Owners that exceed their share only evict those unused for minIdleTime.
//
// Within each group the least recently used is first.
func (c *ImageCache) victims(n int64, owners []string) (list []string, enough bool) {
	n -= c.cfg.MaxBytes - c.used()
	if n <= 0 {
		return nil, true
	}
	u, now := c.usage(), c.cfg.Now()
	within := u.withinShare(owners, n)
	ranks := map[string]int{}
	for checksum, im := range c.images {
		if !im.isIdle() {
			continue
		}
		theirs := c.ownersOf(checksum, im)
		own := !slices.ContainsFunc(theirs, func(o string) bool { return !slices.Contains(owners, o) })
		switch {
		case len(theirs) == 0:
			ranks[checksum] = 0
		case own && !within, u.exceedsShare(theirs):
			ranks[checksum] = 1
		case own:
			ranks[checksum] = 2
		case within || now.Sub(im.lastUsed) >= minIdleTime:
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

// evict frees space for n more bytes and reports whether it succeeded. If there is not enough
// evictable space, it evicts nothing.
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

func (c *ImageCache) remove(checksum string) bool {
	if err := os.Remove(c.path(checksum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Warn("Cannot remove old image", "image", checksum, "error", err)
		return false
	}
	c.cfg.Log.Info("Removed old image", "image", checksum)
	delete(c.images, checksum)
	c.saveIndex()
	return true
}

// requestSpace requests space that is in use. It ends reads that are too slow. For owners within
// their share it also cancels the largest fetch of a namespace that exceeds its own. It
// reports whether space will be freed by this or an earlier call.
func (c *ImageCache) requestSpace(n int64, owners []string) (pending bool) {
	now := c.cfg.Now()
	for checksum, im := range c.images {
		if ended := im.readers.endSlow(now); ended > 0 {
			c.cfg.Log.Info("Ended slow reads of an image to free its space", "image", checksum, "reads", ended)
		}
		pending = pending || im.readers.hasEndingRead() || im.reserved > 0 && im.cancelFetch == nil
	}
	if pending {
		return true
	}
	u, largest := c.usage(), ""
	if !u.withinShare(owners, n) {
		return false
	}
	for checksum, im := range c.images {
		if im.cancelFetch != nil && im.reserved > 0 && u.exceedsShare(c.ownersOf(checksum, im)) && (largest == "" || im.reserved > c.images[largest].reserved) {
			largest = checksum
		}
	}
	if largest == "" {
		return false
	}
	im := c.images[largest]
	im.cancelFetch(errPreempted)
	im.cancelFetch = nil
	return true
}

// isIdle reports whether an image is on disk and neither read nor being verified.
func (im *image) isIdle() bool {
	return im.size > 0 && len(im.readers.open) == 0 && im.state != stateQueued
}

func (c *ImageCache) used() int64 {
	var sum int64
	for _, im := range c.images {
		sum += im.size + im.reserved
	}
	return sum
}

type reservingWriter struct {
	ctx      context.Context
	cache    *ImageCache
	checksum string
	io.Writer
	reserved, written int64 // bytes
}

// Write implements io.Writer. If the disk is full below the cache's limit, it evicts images.
func (w *reservingWriter) Write(p []byte) (int, error) {
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
		if !w.cache.evictOne(w.checksum) {
			return done, fmt.Errorf("%w: %w", ErrCacheFull, err)
		}
	}
}

func (w *reservingWriter) reserve(n int64) error {
	if w.reserved+n > w.cache.cfg.MaxBytes {
		return fmt.Errorf("%w of %d bytes", errTooLarge, w.cache.cfg.MaxBytes)
	}
	for deadline := time.Now().Add(spaceTimeout); ; {
		done, pending := w.cache.reserve(w.checksum, n)
		if done {
			w.reserved += n
			return nil
		}
		if !pending || time.Now().After(deadline) {
			return ErrCacheFull
		}
		select {
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		case <-time.After(spacePoll):
		}
	}
}

// evictOne evicts one image because the disk is full. It returns false if there is none.
func (c *ImageCache) evictOne(checksum string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, _ := c.victims(c.cfg.MaxBytes-c.used()+1, c.ownersOf(checksum, c.images[checksum]))
	return len(list) > 0 && c.remove(list[0])
}
