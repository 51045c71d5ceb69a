// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"slices"
)

const (
	// maxFetches is how many images are fetched at once, and namespaceFetches how many of
	// them for one namespace: one whose sources are slow holds no more.
	maxFetches       = 16
	namespaceFetches = 2
	// queueLength is how many images may wait for one namespace.
	queueLength = 64
)

// waiting is an image that waits for a fetcher, or has one, and the namespace that it counts
// for.
type waiting struct {
	checksum string
	owners   []string
	// owner is one of owners, once it is being fetched.
	owner string
}

// fetchQueue is what is to be verified or fetched, in the order in which it was asked for. Its
// users hold the cache's mu.
type fetchQueue struct {
	waiting []waiting
	running map[string]int // fetches by namespace
	// news is closed and made again when next may have something.
	news chan struct{}
}

func newFetchQueue() fetchQueue {
	return fetchQueue{running: map[string]int{}, news: make(chan struct{})}
}

// add an image, unless too many wait for each of its namespaces.
func (q *fetchQueue) add(checksum string, owners []string) bool {
	room := func(owner string) bool {
		n := 0
		for _, w := range q.waiting {
			if slices.Contains(w.owners, owner) {
				n++
			}
		}
		return n < queueLength
	}
	if !slices.ContainsFunc(owners, room) {
		return false
	}
	q.waiting = append(q.waiting, waiting{checksum: checksum, owners: owners})
	q.wake()
	return true
}

// take the next image: of the namespace for which the fewest are being fetched.
func (q *fetchQueue) take() (waiting, bool) {
	best, least := -1, namespaceFetches
	for i := range q.waiting {
		w := &q.waiting[i]
		w.owner = slices.MinFunc(w.owners, func(a, b string) int { return q.running[a] - q.running[b] })
		if n := q.running[w.owner]; n < least {
			best, least = i, n
		}
	}
	if best < 0 {
		return waiting{}, false
	}
	w := q.waiting[best]
	q.waiting = slices.Delete(q.waiting, best, best+1)
	q.running[w.owner]++
	return w, true
}

// done ends what take began.
func (q *fetchQueue) done(w waiting) {
	if q.running[w.owner]--; q.running[w.owner] == 0 {
		delete(q.running, w.owner)
	}
	q.wake()
}

func (q *fetchQueue) wake() {
	close(q.news)
	q.news = make(chan struct{})
}

// next waits for an image to verify or fetch; false: ctx ended.
func (c *ImageCache) next(ctx context.Context) (waiting, bool) {
	for {
		c.mu.Lock()
		w, ok := c.queue.take()
		news := c.queue.news
		c.mu.Unlock()
		if ok {
			return w, ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return waiting{}, false
		case <-news:
		}
	}
}
