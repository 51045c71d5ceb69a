// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// This file computes when clients should retry. At a site that is installed at once all servers
// wait for one fetch: their retries are spread, and less frequent the longer the fetch takes.

const (
	// minRetryFetching and maxRetryFetching limit the retry time for an image that is being
	// fetched, before jitter doubles it: agents accept at most half a minute.
	minRetryFetching = 2 * time.Second
	maxRetryFetching = 10 * time.Second
	// retryFraction is the inverse of the tolerated delay, relative to the fetch time.
	retryFraction = 10
	// retryFullCache is the retry time for an image that waits for space.
	retryFullCache = 10 * time.Second
)

// fetchRetryTime returns the retry time for an image that has been fetched for the given time,
// without jitter.
func fetchRetryTime(since time.Duration) time.Duration {
	return min(max(since/retryFraction, minRetryFetching), maxRetryFetching)
}

// jitterSeconds returns a pause in whole seconds, as Retry-After requires, multiplied by one to two.
// Parameter share is a random number in [0, 1).
func jitterSeconds(pause time.Duration, share float64) int {
	least := int(pause / time.Second)
	return least + int(share*float64(least+1))
}

func setRetryAfter(header http.Header, pause time.Duration) {
	header.Set("Retry-After", strconv.Itoa(jitterSeconds(pause, rand.Float64())))
}
