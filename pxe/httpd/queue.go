// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"slices"
)

const (
	// maxFetches limits the simultaneous fetches, and namespaceFetches those per namespace,
	// so that slow sources of one namespace do not block the others.
	maxFetches       = 16
	namespaceFetches = 2
	// queueLength limits the queued images per namespace.
	queueLength = 64
)

type waiting struct {
	checksum string
	owners   []string
	// owner is the element of owners that the fetch counts for, once it runs.
	owner string
}

// fetchQueue has the images to verify or fetch, in the order of their requests. Its users must
// hold the cache's mu.
type fetchQueue struct {
	waiting []waiting
	running map[string]int // fetches by namespace
	// changed is closed and replaced when next may have an image.
	changed chan struct{}
}

func newFetchQueue() fetchQueue {
	return fetchQueue{running: map[string]int{}, changed: make(chan struct{})}
}

// add queues an image unless the queues of all its namespaces are full.
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
	q.signalChange()
	return true
}

// take returns the next image: one of the namespace with the fewest running fetches.
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

func (q *fetchQueue) done(w waiting) {
	if q.running[w.owner]--; q.running[w.owner] == 0 {
		delete(q.running, w.owner)
	}
	q.signalChange()
}

func (q *fetchQueue) signalChange() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// next waits for an image to verify or fetch. It returns false when ctx ends.
func (c *ImageCache) next(ctx context.Context) (waiting, bool) {
	for {
		c.mu.Lock()
		w, ok := c.queue.take()
		changed := c.queue.changed
		c.mu.Unlock()
		if ok {
			return w, ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return waiting{}, false
		case <-changed:
		}
	}
}
