// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

const (
	// maxBody limits one request, in bytes. The API server accepts objects of at most 3 MiB,
	// and an admission review contains two.
	maxBody = 8 << 20
	// maxBodies limits all requests in memory, in bytes.
	maxBodies = 3 * maxBody
	// maxCalls limits the requests that are handled concurrently. A decoded body takes up to 30
	// times its size, so a body of maxBody counts as maxCalls requests.
	maxCalls = 64
	// readChunk is the size of one read, in bytes.
	readChunk = 16 << 10
	// readTimeout limits the arrival of a body.
	readTimeout = 5 * time.Second
	// answerTimeout limits one request: it is the maximum timeoutSeconds of a webhook.
	answerTimeout = 30 * time.Second
)

// errBusy is returned for a body that would exceed maxBodies.
var errBusy = errors.New("too many concurrent requests")

// WithLimits returns a webhook server that limits the memory and the time of requests, since any
// Pod may reach the port. All its handlers share the limits. controller-runtime limits the body of
// an admission review, but not of a conversion review.
func WithLimits(server webhook.Server) webhook.Server {
	return &limitedServer{
		Server: server, readTimeout: readTimeout, answerTimeout: answerTimeout,
		bodies: semaphore.NewWeighted(maxBodies), calls: semaphore.NewWeighted(maxBody),
	}
}

type limitedServer struct {
	webhook.Server
	readTimeout, answerTimeout time.Duration
	// bodies counts the bytes of the requests in memory. calls counts the bytes of the requests
	// being handled, at least maxBody/maxCalls for each.
	bodies, calls *semaphore.Weighted
}

// Register registers handler behind the limits.
func (s *limitedServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, handler) }))
}

func (s *limitedServer) serve(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	ctx, cancel := context.WithTimeout(r.Context(), s.answerTimeout)
	defer cancel()
	control := http.NewResponseController(w)
	// The other limits also apply to a writer without deadlines.
	_ = control.SetReadDeadline(time.Now().Add(s.readTimeout))
	_ = control.SetWriteDeadline(time.Now().Add(s.answerTimeout + s.readTimeout))
	if r.ContentLength > maxBody {
		http.Error(w, "the request is larger than 8 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	body, held, err := s.read(http.MaxBytesReader(w, r.Body, maxBody))
	defer func() { s.bodies.Release(held) }()
	if err != nil {
		writeError(w, err)
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	weight := max(int64(len(body)), maxBody/maxCalls)
	if err := s.calls.Acquire(ctx, weight); err != nil {
		writeError(w, errBusy)
		return
	}
	defer s.calls.Release(weight)
	r = r.WithContext(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	handler.ServeHTTP(w, r)
}

// read returns a body, and the bytes of s.bodies that the caller must release. It acquires them
// as the body arrives, so that a slow client, or one that only announces a large body, holds few.
// It never waits for bytes, because requests that hold some could wait for each other.
func (s *limitedServer) read(from io.Reader) (_ []byte, held int64, _ error) {
	var body bytes.Buffer
	for {
		if !s.bodies.TryAcquire(readChunk) {
			return nil, held, errBusy
		}
		held += readChunk
		_, err := io.CopyN(&body, from, readChunk)
		if errors.Is(err, io.EOF) {
			return body.Bytes(), held, nil
		}
		if err != nil {
			return nil, held, err
		}
	}
}

// writeError answers a request whose body was not read.
func writeError(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, "the request is larger than 8 MiB", http.StatusRequestEntityTooLarge)
	case errors.Is(err, errBusy):
		// The API server's client retries after a 429 with this header.
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many concurrent requests; retry", http.StatusTooManyRequests)
	default:
		http.Error(w, "the request body did not arrive in time", http.StatusBadRequest)
	}
}
