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

func TestSourceGivesUpOnASilentServer(t *testing.T) {
	server := &agenttest.Images{Content: rawImage(3 * mib), Status: http.StatusBadGateway}
	req := request(server.Start(t))
	req.Patience = time.Nanosecond
	_, err := image.Open(t.Context(), req, image.Format{Checksum: server.Checksum()})
	if !errors.Is(err, image.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
}

// The source waits for a boot server that fetches the image, up to Busy, and up to Patience
// for one that reports a problem.
func TestSourceWaitsForABusyServer(t *testing.T) {
	for _, tc := range []struct {
		name     string
		server   *agenttest.Images
		patience time.Duration
		busy     time.Duration
		want     error
		says     string
	}{
		{name: "fetching", server: &agenttest.Images{Busy: 3}},
		{name: "problem", server: &agenttest.Images{Busy: 3, Problem: "image source § not allowed"}, patience: time.Nanosecond,
			want: image.ErrUnavailable, says: "HTTP status 503: image source ? not allowed; no progress for"},
		{name: "resolved problem", server: &agenttest.Images{Busy: 3, Problem: "status 500"}},
		{name: "fetching without end", server: &agenttest.Images{Busy: 1 << 30}, busy: time.Millisecond, want: image.ErrUnavailable, says: "HTTP status 503; no progress for"},
		{name: "another failure", server: &agenttest.Images{Status: http.StatusBadGateway, Problem: strings.Repeat("x", 1000)}, patience: time.Nanosecond,
			want: image.ErrUnavailable, says: "HTTP status 502: " + strings.Repeat("x", 300) + ";"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := tc.server
			server.Content = rawImage(3 * mib)
			req := request(server.Start(t))
			req.Patience, req.Busy = tc.patience, tc.busy
			told := 0
			req.OnBusy = func(time.Duration) { told++ }
			img, err := image.Open(t.Context(), req, image.Format{Checksum: server.Checksum()})
			if err == nil {
				_ = img.Close()
			}
			if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want %v with %q", err, tc.want, tc.says)
			}
			if server.Busy > 0 && told < min(server.Busy, 1) {
				t.Errorf("told %d times that the server is busy", told)
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
	// length it says, cut where it breaks off, and silent where it says nothing more.
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
		told     time.Duration // minimum time reported without new bytes
		requests int           // 0: any number
		err      error
		says     string
	}{
		"for longer than a connection may be silent": {answers: []slowAnswer{{length: size, cut: 10 * chunk}, whole}, told: 5 * time.Minute, requests: 2},
		"and it falls silent":                        {answers: []slowAnswer{{length: size, cut: 10 * chunk}, {length: size, silent: 5 * chunk}, whole}, told: 8 * time.Minute, requests: 3},
		"for longer than its patience":               {answers: []slowAnswer{{length: size, cut: 35 * chunk}, {length: size, cut: 30 * chunk}, whole}, told: 30 * time.Minute, requests: 3},
		"and never further": {answers: []slowAnswer{{length: size, cut: 10 * chunk}, {length: size, cut: 5 * chunk}}, told: 115 * time.Minute,
			err: image.ErrUnreachable, says: "connection lost while repeating the first 10"},
		"of another size": {answers: []slowAnswer{{length: size, cut: 10 * chunk}, {length: size + 1}}, requests: 2,
			err: image.ErrUnavailable, says: "size changed from 40000 to 40001"},
		"which does not say its size now": {answers: []slowAnswer{{length: size, cut: 10 * chunk}, {length: -1, cut: 20 * chunk}, {length: size - 1}}, requests: 3,
			err: image.ErrUnavailable, says: "size changed from 40000 to 39999"},
		"which said no size before": {answers: []slowAnswer{{length: -1, cut: 10 * chunk}, whole}, told: 5 * time.Minute, requests: 2},
		"which never says its size": {answers: []slowAnswer{{length: -1, cut: 10 * chunk}, {length: -1}}, told: 5 * time.Minute, requests: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				server := &slow{content: rawImage(2 * mib)[:size], answers: tc.answers}
				var told time.Duration
				source := image.OpenSource(t.Context(), image.Request{Client: &http.Client{Transport: server}, URL: "http://images",
					OnBusy: func(d time.Duration) { told = d }})
				got, err := io.ReadAll(source)
				_ = source.Close()
				if told < tc.told {
					t.Errorf("told for %s that it gives nothing new, want %s", told, tc.told)
				}
				if !errors.Is(err, tc.err) || err != nil && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error %v, want %v with %q", err, tc.err, tc.says)
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
