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
	// maxBody bounds one request, in bytes. The API server accepts objects of at most 3 MiB,
	// and an admission review carries two of them.
	maxBody = 8 << 20
	// maxBodies bounds all requests that are in memory at once, in bytes.
	maxBodies = 3 * maxBody
	// maxCalls bounds the requests that are decoded and answered at once. A decoded body takes
	// up to 30 times its size, so one of maxBody counts as maxCalls.
	maxCalls = 64
	// readChunk is how much of a body is read at a time, in bytes.
	readChunk = 16 << 10
	// readTimeout is how long a body may take to arrive.
	readTimeout = 5 * time.Second
	// answerTimeout is how long one request may take in all: the longest timeoutSeconds of a
	// webhook.
	answerTimeout = 30 * time.Second
)

// errBusy is returned for a body that does not fit into maxBodies.
var errBusy = errors.New("too many requests at once")

// WithLimits returns a webhook server that bounds the memory and the time of requests to
// every handler that is registered with it, since any Pod may reach the port. Handlers share
// the limits. Controller-runtime itself bounds the body of an admission review, and nothing
// of a conversion review.
func WithLimits(server webhook.Server) webhook.Server {
	return &limitedServer{
		Server: server, readTimeout: readTimeout, answerTimeout: answerTimeout,
		bodies: semaphore.NewWeighted(maxBodies), calls: semaphore.NewWeighted(maxBody),
	}
}

type limitedServer struct {
	webhook.Server
	readTimeout, answerTimeout time.Duration
	// bodies holds the bytes of the requests that are in memory; calls those that are being
	// decoded and answered, with at least maxBody/maxCalls for each.
	bodies, calls *semaphore.Weighted
}

// Register puts the limits before a handler.
func (s *limitedServer) Register(path string, handler http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, handler) }))
}

func (s *limitedServer) serve(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	ctx, cancel := context.WithTimeout(r.Context(), s.answerTimeout)
	defer cancel()
	control := http.NewResponseController(w)
	// A writer without deadlines still has the other limits.
	_ = control.SetReadDeadline(time.Now().Add(s.readTimeout))
	_ = control.SetWriteDeadline(time.Now().Add(s.answerTimeout + s.readTimeout))
	if r.ContentLength > maxBody {
		http.Error(w, "the request is larger than 8 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	body, held, err := s.read(http.MaxBytesReader(w, r.Body, maxBody))
	defer func() { s.bodies.Release(held) }()
	if err != nil {
		refuse(w, err)
		return
	}
	_ = control.SetReadDeadline(time.Time{})
	weight := max(int64(len(body)), maxBody/maxCalls)
	if err := s.calls.Acquire(ctx, weight); err != nil {
		refuse(w, errBusy)
		return
	}
	defer s.calls.Release(weight)
	r = r.WithContext(ctx)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	handler.ServeHTTP(w, r)
}

// read returns a body, and how many bytes of s.bodies are to be released. It takes them as the
// body arrives, so that a client that is slow, or only announces a large body, holds little.
// It does not wait for them, since those that hold some may wait for more, too.
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

// refuse answers a request whose body was not taken in.
func refuse(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		http.Error(w, "the request is larger than 8 MiB", http.StatusRequestEntityTooLarge)
	case errors.Is(err, errBusy):
		// The API server's client calls again after a 429 that has this header.
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests at once; call again", http.StatusTooManyRequests)
	default:
		http.Error(w, "the request could not be read to its end in time", http.StatusBadRequest)
	}
}
