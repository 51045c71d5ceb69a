// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// Images serves one file like the boot server's cache. Set the exported fields before Start.
type Images struct {
	Content []byte
	// Busy is the number of requests that are first answered 503 with Retry-After.
	Busy int
	// CutAt cuts the connection of the n-th request (from 0) after CutAt[n] bytes. Later
	// answers are complete.
	CutAt             []int
	NoRange, NoLength bool
	// Status is the status of every answer, if not 0.
	Status int
	// Problem is sent as HeaderImageProblem while the image is not available.
	Problem string

	mu       sync.Mutex
	requests int
	ranges   []string
}

// Checksum returns the checksum of the content in the form of an order.
func (s *Images) Checksum() string {
	sum := sha256.Sum256(s.Content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Start serves on a loopback port until the test ends, and returns the URL.
func (s *Images) Start(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return "http://" + l.Addr().String() + "/images/" + s.Checksum()[len("sha256:"):]
}

// Ranges returns the Range header of each request that was answered with content.
func (s *Images) Ranges() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ranges...)
}

func (s *Images) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	n := s.requests
	s.requests++
	busy := n < s.Busy
	if !busy {
		s.ranges = append(s.ranges, r.Header.Get("Range"))
	}
	s.mu.Unlock()
	if s.Problem != "" && (busy || s.Status != 0) {
		w.Header()[agentapi.HeaderImageProblem] = []string{s.Problem}
	}
	if s.Status != 0 {
		http.Error(w, "no", s.Status)
		return
	}
	if busy {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "fetching", http.StatusServiceUnavailable)
		return
	}
	if i := n - s.Busy; i < len(s.CutAt) {
		w = &cutWriter{ResponseWriter: w, left: s.CutAt[i]}
	}
	if s.NoRange {
		r.Header.Del("Range")
	}
	if s.NoLength {
		_, _ = fmt.Fprintf(w, "%s", s.Content)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.Content))
}

type cutWriter struct {
	http.ResponseWriter
	left int
}

func (c *cutWriter) Write(b []byte) (int, error) {
	if len(b) > c.left {
		_, _ = c.ResponseWriter.Write(b[:c.left])
		if f, ok := c.ResponseWriter.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	c.left -= len(b)
	return c.ResponseWriter.Write(b)
}
