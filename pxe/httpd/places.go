// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

// This file chooses from which of an image's places it is fetched. The author of a Machine
// can name a place of their own for the checksum of another's image.

const (
	// quickFetch is the least that a place has to give, in bytes per second over each half of
	// CacheConfig.Stall, while there are others that were not tried.
	quickFetch = 1 << 20
	// quickTries is for how many tries in a row that holds: places may be many.
	quickTries = 3
	// maxGood bounds goodPlaces.
	maxGood = 4096
)

// try is what became of the fetches of an image from one place.
type try struct {
	failures int
	// rate of the last one, in bytes per second.
	rate float64
}

// goodPlaces has, by checksum, the place from which an image came and was verified, also when
// the image is not on the disk any more.
type goodPlaces map[string]string

// placeKey names a place without its URL, which may carry a signature.
func placeKey(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:])
}

// placesOf are the URLs of an image.
func placesOf(source pxe.ImageSource) []string {
	return append([]string{source.URL}, source.Mirrors...)
}

// place chooses one: the one that the image came from before, then those with the fewest
// failures, then the fastest, then the first.
func (c *ImageCache) place(source pxe.ImageSource) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	im := c.images[source.Checksum] // nothing removes it while it is queued
	good := c.good[source.Checksum]
	known := func(url string) try {
		t := im.tries[url]
		switch {
		case t != nil:
			return *t
		case placeKey(url) == good:
			return try{failures: -1}
		}
		return try{}
	}
	return slices.MinFunc(placesOf(source), func(a, b string) int {
		x, y := known(a), known(b)
		return cmp.Or(cmp.Compare(x.failures, y.failures), cmp.Compare(y.rate, x.rate))
	})
}

// demand returns what the fetch of an image from a place has to give now, in bytes per second,
// and over which time: more while there are places that were not tried. These may be of a
// claim that came after the fetch began, which must not wait for a place of another tenant.
func (c *ImageCache) demand(source pxe.ImageSource, place string) (least int64, over time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	im, ok := c.images[source.Checksum]
	if ok && im.failures < quickTries && slices.ContainsFunc(placesOf(source), func(url string) bool { return url != place && im.tries[url] == nil }) {
		return quickFetch, c.cfg.Stall / 2
	}
	return slowestFetch, 2 * c.cfg.Stall
}

// tried notes what became of a fetch from a place.
func (c *ImageCache) tried(checksum, url string, err error, arrived int64, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	im, ok := c.images[checksum]
	if !ok || errors.Is(err, ErrNoRoom) || errors.Is(err, errUnnamed) { // that says nothing of the place
		return
	}
	if err == nil {
		c.good.note(checksum, placeKey(url))
		return
	}
	if im.tries == nil {
		im.tries = map[string]*try{}
	}
	if im.tries[url] == nil {
		im.tries[url] = &try{}
	}
	im.tries[url].failures++
	im.tries[url].rate = float64(arrived) / max(took.Seconds(), 1e-3)
}

// note remembers a place. Where there are too many one is forgotten, which costs a slow try.
func (g goodPlaces) note(checksum, key string) {
	if _, known := g[checksum]; !known && len(g) >= maxGood {
		for other := range g {
			delete(g, other)
			break
		}
	}
	g[checksum] = key
}
