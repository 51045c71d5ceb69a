// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// reserve takes room for n more bytes, by removing images that nobody reads. It
// fails with ErrNoRoom if that is not enough.
func (c *ImageCache) reserve(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > c.cfg.MaxBytes {
		return fmt.Errorf("%w of %d bytes", errTooLarge, c.cfg.MaxBytes)
	}
	if !c.evict(n) {
		return ErrNoRoom
	}
	c.reserved += n
	return nil
}

// settle turns what a fetch has reserved into the size of its image; 0 after a
// failure.
func (c *ImageCache) settle(checksum string, reserved, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved -= reserved
	if im, ok := c.images[checksum]; ok {
		im.size = size
	}
}

// evict removes the least recently used images until n bytes fit beside the
// others, and says whether they do. It removes none where that would not be enough.
func (c *ImageCache) evict(n int64) bool {
	kept := c.reserved
	for _, im := range c.images {
		if !im.idle() {
			kept += im.size
		}
	}
	if kept+n > c.cfg.MaxBytes {
		return false
	}
	for c.used()+n > c.cfg.MaxBytes {
		if !c.evictOldest() {
			return false
		}
	}
	return true
}

// evictOldest removes the image that was not used for the longest time; never one
// that is being served, or verified. It is false if there is none.
func (c *ImageCache) evictOldest() bool {
	oldest := ""
	for checksum, im := range c.images {
		if !im.idle() {
			continue
		}
		if oldest == "" || im.lastUsed.Before(c.images[oldest].lastUsed) {
			oldest = checksum
		}
	}
	if oldest == "" {
		return false
	}
	if err := os.Remove(c.path(oldest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Warn("old image not removed", "image", oldest, "error", err)
		return false
	}
	c.cfg.Log.Info("old image removed", "image", oldest)
	delete(c.images, oldest)
	c.saveIndex()
	return true
}

// idle says that nobody would miss the image on the disk just now.
func (im *image) idle() bool { return im.size > 0 && im.readers == 0 && im.state != stateQueued }

func (c *ImageCache) used() int64 {
	sum := c.reserved
	for _, im := range c.images {
		sum += im.size
	}
	return sum
}

// roomWriter writes an image for which room is taken as it comes, beyond what was
// reserved before.
type roomWriter struct {
	cache *ImageCache
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
		if !w.cache.makeEmptier() {
			return done, fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
	}
}

func (w *roomWriter) reserve(n int64) error {
	if w.reserved+n > w.cache.cfg.MaxBytes {
		return fmt.Errorf("%w of %d bytes", errTooLarge, w.cache.cfg.MaxBytes)
	}
	if err := w.cache.reserve(n); err != nil {
		return err
	}
	w.reserved += n
	return nil
}

func (c *ImageCache) makeEmptier() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.evictOldest()
}
