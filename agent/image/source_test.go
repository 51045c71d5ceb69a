// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/image"
)

// The source waits for a boot server that fetches the image, up to Busy, and up to Patience
// for one that reports a problem.
func TestSourceWaitsForABusyServer(t *testing.T) {
	for _, tc := range []struct {
		name     string
		server   *agenttest.Images
		patience time.Duration
		busy     time.Duration
		want     error
		message  string
	}{
		{name: "fetching", server: &agenttest.Images{Busy: 3}},
		{name: "problem", server: &agenttest.Images{Busy: 3, Problem: "image source § not allowed"}, patience: time.Nanosecond,
			want: image.ErrUnavailable, message: "HTTP status 503: image source ? not allowed; no progress for"},
		{name: "resolved problem", server: &agenttest.Images{Busy: 3, Problem: "status 500"}},
		{name: "fetching without end", server: &agenttest.Images{Busy: 1 << 30}, busy: time.Millisecond, want: image.ErrUnavailable, message: "HTTP status 503; no progress for"},
		{name: "proxy failure", server: &agenttest.Images{Status: http.StatusBadGateway}, patience: time.Nanosecond,
			want: image.ErrUnavailable, message: "HTTP status 502; no progress for"},
		{name: "another failure", server: &agenttest.Images{Status: http.StatusBadGateway, Problem: strings.Repeat("x", 1000)}, patience: time.Nanosecond,
			want: image.ErrUnavailable, message: "HTTP status 502: " + strings.Repeat("x", 300) + ";"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := tc.server
			server.Content = rawImage(3 * mib)
			req := request(server.Start(t))
			req.Patience, req.Busy = tc.patience, tc.busy
			calls := 0
			req.OnBusy = func(time.Duration) { calls++ }
			img, err := image.Open(t.Context(), req, image.Format{Checksum: server.Checksum()})
			if err == nil {
				_ = img.Close()
			}
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.message) {
				t.Errorf("error %v, want %v with %q", err, tc.want, tc.message)
			}
			if server.Busy > 0 && calls < min(server.Busy, 1) {
				t.Errorf("OnBusy called %d times", calls)
			}
		})
	}
}

// Servers that got the same Retry-After do not retry at the same moment.
func TestRetryAfterIsJittered(t *testing.T) {
	server := &agenttest.Images{Content: []byte("image"), Busy: 20} // Retry-After: 1
	req := request(server.Start(t))
	waits := map[time.Duration]bool{}
	req.Sleep = func(_ context.Context, d time.Duration) error {
		if waits[d] = true; d < time.Second || d >= 2*time.Second {
			t.Errorf("waits for %s", d)
		}
		return nil
	}
	source := image.OpenSource(t.Context(), req)
	defer func() { _ = source.Close() }()
	if got, err := io.ReadAll(source); err != nil || string(got) != "image" {
		t.Errorf("%q, %v", got, err)
	}
	if len(waits) < 2 {
		t.Error("it waits for the same time always")
	}
}

func TestSourceGivesUpOnAServerThatIsGone(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	req := request(gone.URL)
	req.Patience = time.Nanosecond
	_, err := image.Open(t.Context(), req, image.Format{Checksum: fmt.Sprintf("sha256:%064d", 0)})
	if !errors.Is(err, image.ErrUnreachable) || errors.Is(err, image.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

// chunk is a part of a slow server's answer.
const (
	chunk = 1000
	pace  = 30 * time.Second
)

// slow answers each request with the complete content and ignores ranges. The last answer
// repeats.
type slow struct {
	content  []byte
	answers  []slowAnswer
	requests int
}

type slowAnswer struct {
	// length is the Content-Length (-1: none), cut and silent are the bytes after which the
	// connection breaks or the server falls silent (0: never).
	length, cut, silent int
}

func (s *slow) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := s.answers[min(s.requests, len(s.answers)-1)]
	s.requests++
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: int64(answer.length),
		Body: io.NopCloser(&slowBody{ctx: r.Context(), answer: answer, content: s.content})}, nil
}

type slowBody struct {
	ctx     context.Context
	answer  slowAnswer
	content []byte
	given   int
}

func (b *slowBody) Read(p []byte) (int, error) {
	wait := pace
	switch {
	case b.answer.silent > 0 && b.given >= b.answer.silent:
		wait = 1000 * time.Hour
	case b.answer.cut > 0 && b.given >= b.answer.cut:
		return 0, io.ErrUnexpectedEOF
	case b.given == len(b.content):
		return 0, io.EOF
	}
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-time.After(wait):
	}
	n := copy(p[:min(len(p), chunk)], b.content[b.given:])
	b.given += n
	return n, nil
}

// From a server that ignores ranges the content is read again from its start. The transfer is
// given up if it is silent, or never gets further than before.
func TestSourceRepeatsWithoutRanges(t *testing.T) {
	const size = 40 * chunk
	whole := slowAnswer{length: size}
	for name, tc := range map[string]struct {
		answers  []slowAnswer
		busy     time.Duration // minimum value of OnBusy
		requests int           // 0: any number
		err      error
		message  string
	}{
		"longer than Stall":            {answers: []slowAnswer{{length: size, cut: 10 * chunk}, whole}, busy: 5 * time.Minute, requests: 2},
		"silent during the repetition": {answers: []slowAnswer{{length: size, cut: 10 * chunk}, {length: size, silent: 5 * chunk}, whole}, busy: 8 * time.Minute, requests: 3},
		"longer than Patience":         {answers: []slowAnswer{{length: size, cut: 35 * chunk}, {length: size, cut: 30 * chunk}, whole}, busy: 30 * time.Minute, requests: 3},
		"never further": {answers: []slowAnswer{{length: size, cut: 10 * chunk}, {length: size, cut: 5 * chunk}}, busy: 115 * time.Minute,
			err: image.ErrUnreachable, message: "connection lost while repeating the first 10"},
		"another size": {answers: []slowAnswer{{length: size, cut: 10 * chunk}, {length: size + 1}}, requests: 2,
			err: image.ErrUnavailable, message: "size changed from 40000 to 40001"},
		"another size after an unknown one": {answers: []slowAnswer{{length: size, cut: 10 * chunk}, {length: -1, cut: 20 * chunk}, {length: size - 1}}, requests: 3,
			err: image.ErrUnavailable, message: "size changed from 40000 to 39999"},
		"size unknown at first": {answers: []slowAnswer{{length: -1, cut: 10 * chunk}, whole}, busy: 5 * time.Minute, requests: 2},
		"size unknown":          {answers: []slowAnswer{{length: -1, cut: 10 * chunk}, {length: -1}}, busy: 5 * time.Minute, requests: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				server := &slow{content: rawImage(2 * mib)[:size], answers: tc.answers}
				var busy time.Duration
				source := image.OpenSource(t.Context(), image.Request{Client: &http.Client{Transport: server}, URL: "http://images",
					OnBusy: func(d time.Duration) { busy = d }})
				got, err := io.ReadAll(source)
				_ = source.Close()
				if busy < tc.busy {
					t.Errorf("OnBusy got %s, want at least %s", busy, tc.busy)
				}
				if !errors.Is(err, tc.err) || err != nil && !strings.Contains(err.Error(), tc.message) {
					t.Errorf("error %v, want %v with %q", err, tc.err, tc.message)
				}
				if err == nil && !bytes.Equal(got, server.content) {
					t.Errorf("%d bytes, not the %d of the server", len(got), size)
				}
				if tc.requests > 0 && server.requests != tc.requests {
					t.Errorf("%d requests, want %d", server.requests, tc.requests)
				}
				if late := time.Since(start) > 150*time.Minute; late || tc.requests == 0 && time.Since(start) < 2*time.Hour {
					t.Errorf("it ended after %s", time.Since(start))
				}
			})
		})
	}
}
