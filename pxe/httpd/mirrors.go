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

// This file selects the URL from which an image is fetched. Note that the author of one Machine
// can name a URL of their own for the checksum of another Machine's image.

const (
	// fastFetchRate is the minimal rate over half of CacheConfig.Stall, in bytes per second,
	// while there are untried URLs.
	fastFetchRate = 1 << 20
	// maxFastTries is the number of consecutive tries with that rate, since there may be many URLs.
	maxFastTries = 3
	maxGoodURLs  = 4096
)

type try struct {
	failures int
	rate     float64 // of the last fetch, in bytes per second
}

// goodURLs has, by checksum, the URL of the last verified image, even if the image was evicted.
type goodURLs map[string]string

// urlKey returns a name for a URL that hides its signature.
func urlKey(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:])
}

// chooseURL selects a URL: the one that delivered the image before, then those with the fewest
// failures, then the fastest, then the first.
func (c *ImageCache) chooseURL(source pxe.ImageSource) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	im := c.images[source.Checksum] // queued images are never removed
	good := c.good[source.Checksum]
	known := func(url string) try {
		t := im.tries[url]
		switch {
		case t != nil:
			return *t
		case urlKey(url) == good:
			return try{failures: -1}
		}
		return try{}
	}
	return slices.MinFunc(append([]string{source.URL}, source.Mirrors...), func(a, b string) int {
		x, y := known(a), known(b)
		return cmp.Or(cmp.Compare(x.failures, y.failures), cmp.Compare(y.rate, x.rate))
	})
}

// minRate returns the minimal rate of a fetch in bytes per second, and over which time. The rate
// is higher while there are untried URLs. Such a URL may be from a claim that came after the
// fetch began and must not have to wait for another tenant's slow URL.
func (c *ImageCache) minRate(source pxe.ImageSource, from string) (least int64, over time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	im, ok := c.images[source.Checksum]
	untried := func(url string) bool { return url != from && im.tries[url] == nil }
	if ok && im.failures < maxFastTries && (untried(source.URL) || slices.ContainsFunc(source.Mirrors, untried)) {
		return fastFetchRate, c.cfg.Stall / 2
	}
	return minFetchRate, 2 * c.cfg.Stall
}

func (c *ImageCache) recordTry(checksum, url string, err error, arrived int64, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	im, ok := c.images[checksum]
	if !ok || errors.Is(err, ErrCacheFull) || errors.Is(err, errUnnamed) { // not the URL's fault
		return
	}
	if err == nil {
		c.good.remember(checksum, urlKey(url))
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

// remember records a URL. If there are too many, it forgets another, which costs a slow try.
func (g goodURLs) remember(checksum, key string) {
	if _, known := g[checksum]; !known && len(g) >= maxGoodURLs {
		for other := range g {
			delete(g, other)
			break
		}
	}
	g[checksum] = key
}
