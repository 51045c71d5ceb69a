// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// This file says when clients are to ask again. Servers of a site that is installed at once
// all wait for one fetch: they are kept apart, and ask less often the longer it takes.

const (
	// retryFetching is how soon at the least a client should ask again for an image that is
	// being fetched, and maxRetryFetching at the most, before chance doubles it: agents take
	// no more than half a minute.
	retryFetching    = 2 * time.Second
	maxRetryFetching = 10 * time.Second
	// retryShare is which part of the time that a fetch has taken may be lost at its end.
	retryShare = 10
	// retryRoom is how soon a client should ask again for an image that waits for room.
	retryRoom = 10 * time.Second
)

// whileFetching is how soon a client should ask again for an image that has been coming for so
// long, before chance has its part.
func whileFetching(since time.Duration) time.Duration {
	return min(max(since/retryShare, retryFetching), maxRetryFetching)
}

// spread makes whole seconds, which Retry-After has, of a pause: from once to twice as long,
// by a share of chance from 0 to less than 1.
func spread(pause time.Duration, share float64) int {
	least := int(pause / time.Second)
	return least + int(share*float64(least+1))
}

// setRetryAfter asks the client to come again in one to two times the pause.
func setRetryAfter(header http.Header, pause time.Duration) {
	header.Set("Retry-After", strconv.Itoa(spread(pause, rand.Float64())))
}
