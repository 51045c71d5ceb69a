// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// This file ends fetches that are too slow, because all images share a few fetchers.

const (
	// minFetchRate is the minimal rate in bytes per second, measured over twice
	// CacheConfig.Stall. At a lower rate an image would take days.
	minFetchRate = 64 << 10
	// maxFetchTime is three times the agents' timeout for an image.
	maxFetchTime = 6 * time.Hour
)

var (
	errSlow    = errors.New("data comes too slowly")
	errTooLong = fmt.Errorf("not complete after %s", maxFetchTime)
	errUnnamed = errors.New("no claim names the image any more")
)

// monitorFetch cancels a fetch that is too slow or no longer needed. It returns when ctx ends.
func (c *ImageCache) monitorFetch(ctx context.Context, checksum, from string, arrived *atomic.Int64, cancelFetch context.CancelCauseFunc) {
	ticker := time.NewTicker(max(c.cfg.Stall/4, time.Millisecond))
	defer ticker.Stop()
	w := newFetchMonitor(c.cfg.Stall, time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			source, named := c.references.source(checksum)
			least, over := c.minRate(source, from)
			if err := w.check(time.Now(), named, arrived.Load(), least, over); err != nil {
				cancelFetch(err)
				return
			}
		}
	}
}

type fetchMonitor struct {
	stall time.Duration
	began time.Time
	named time.Time // when a claim last named the image
	// The rate is measured since this time and after had bytes.
	since time.Time
	had   int64
}

func newFetchMonitor(stall time.Duration, now time.Time) fetchMonitor {
	return fetchMonitor{stall: stall, began: now, named: now, since: now}
}

// check checks a fetch with the total of received bytes and its minimal rate. The image may be
// unnamed for the stall time, between a machine and its replacement.
func (w *fetchMonitor) check(now time.Time, named bool, arrived, least int64, over time.Duration) error {
	if named {
		w.named = now
	}
	measured, got := now.Sub(w.since), arrived-w.had
	switch {
	case now.Sub(w.named) >= w.stall:
		return errUnnamed
	case now.Sub(w.began) >= maxFetchTime:
		return errTooLong
	case measured < over:
		return nil
	case float64(got) < float64(least)*measured.Seconds():
		return fmt.Errorf("%w: %d KiB in %s", errSlow, got>>10, measured.Round(time.Second))
	}
	w.since, w.had = now, arrived
	return nil
}
