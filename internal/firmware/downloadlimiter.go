// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"slices"
	"sync"
)

const (
	// imagesAtOnce bounds how many images are read at the same time, and imagesOfOne how
	// many of them from one server, or for the hosts of one namespace: a server that takes
	// requests and answers none, whoever named it, must leave places for the others.
	imagesAtOnce = 4
	imagesOfOne  = 2
)

// queue hands out the places for images that are read: first come, first served, past
// those whose server or namespace has its places. The zero value is ready.
type queue struct {
	mu               sync.Mutex
	reading, waiting []*place
}

// place is one of those that read images, or wait for it.
type place struct {
	server, namespace string
	ready             chan struct{}
}

// enter waits for a place as long as ctx lasts. leave gives it back.
func (q *queue) enter(ctx context.Context, server, namespace string) (leave func(), _ error) {
	p := &place{server: server, namespace: namespace, ready: make(chan struct{})}
	leave = func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		is := func(other *place) bool { return other == p }
		q.reading, q.waiting = slices.DeleteFunc(q.reading, is), slices.DeleteFunc(q.waiting, is)
		q.admit()
	}
	q.mu.Lock()
	q.waiting = append(q.waiting, p)
	q.admit()
	q.mu.Unlock()
	select {
	case <-p.ready:
		return leave, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

// admit is called with the lock held.
func (q *queue) admit() {
	for i := 0; i < len(q.waiting) && len(q.reading) < imagesAtOnce; {
		p := q.waiting[i]
		if !q.fits(p) {
			i++
			continue
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.reading = append(q.reading, p)
		close(p.ready)
	}
}

func (q *queue) fits(p *place) bool {
	ofServer, ofNamespace := 0, 0
	for _, other := range q.reading {
		if other.server == p.server {
			ofServer++
		}
		if other.namespace == p.namespace {
			ofNamespace++
		}
	}
	return ofServer < imagesOfOne && ofNamespace < imagesOfOne
}
