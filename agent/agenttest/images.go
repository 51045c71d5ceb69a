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

// Images serves one file like the boot server's cache does. Set the exported
// fields before Start.
type Images struct {
	Content []byte
	// Busy is how many requests are answered 503 with Retry-After first.
	Busy int
	// CutAt cuts the connection of the n-th request (from 0) after so many bytes of
	// its answer; later ones are whole.
	CutAt []int
	// NoRange ignores Range, NoLength hides the size.
	NoRange, NoLength bool
	// Status answers everything when set.
	Status int
	// Problem is what it says to be wrong while it does not give the image.
	Problem string

	mu       sync.Mutex
	requests int
	ranges   []string
}

// Checksum of the content in the form of an order.
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

// ServeHTTP implements http.Handler.
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

// cutWriter ends the connection after some bytes.
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
