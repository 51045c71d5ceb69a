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

// This file keeps a fetcher from being held by a source that gives a byte now and then.
// There are few, and all images wait for them.

const (
	// slowestFetch is the least that a source has to give, in bytes per second, over each
	// time of twice CacheConfig.Stall: a phone line gives less, and an image would take days.
	slowestFetch = 64 << 10
	// longestFetch is three times what agents wait for an image, which by then have asked
	// again and again.
	longestFetch = 6 * time.Hour
)

var (
	errSlow    = errors.New("data comes too slowly")
	errTooLong = fmt.Errorf("it is not here after %s", longestFetch)
	// errUnnamed: nothing failed, and nobody is there who would want to know.
	errUnnamed = errors.New("no claim names the image any more")
)

// watch calls a fetch off once it is not worth its fetcher. It ends with the context.
func (c *ImageCache) watch(ctx context.Context, checksum, from string, arrived *atomic.Int64, callOff context.CancelCauseFunc) {
	ticker := time.NewTicker(max(c.cfg.Stall/4, time.Millisecond))
	defer ticker.Stop()
	w := startWorth(c.cfg.Stall, time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			source, named := c.names.source(checksum)
			least, over := c.demand(source, from)
			if err := w.judge(time.Now(), named, arrived.Load(), least, over); err != nil {
				callOff(err)
				return
			}
		}
	}
}

// worth is whether a fetch is worth its fetcher.
type worth struct {
	stall time.Duration
	began time.Time
	// named is when a claim named the image last.
	named time.Time
	// since this moment, and after so many bytes, the rate is measured.
	since time.Time
	had   int64
}

func startWorth(stall time.Duration, now time.Time) worth {
	return worth{stall: stall, began: now, named: now, since: now}
}

// judge looks at a fetch that has brought so many bytes in all, and that has to bring least
// bytes per second over a time. An image may be without a claim for a moment, between a machine
// and the one that replaces it.
func (w *worth) judge(now time.Time, named bool, arrived, least int64, over time.Duration) error {
	if named {
		w.named = now
	}
	measured, got := now.Sub(w.since), arrived-w.had
	switch {
	case now.Sub(w.named) >= w.stall:
		return errUnnamed
	case now.Sub(w.began) >= longestFetch:
		return errTooLong
	case measured < over:
		return nil
	case float64(got) < float64(least)*measured.Seconds():
		return fmt.Errorf("%w: %d KiB in %s", errSlow, got>>10, measured.Round(time.Second))
	}
	w.since, w.had = now, arrived
	return nil
}
