// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstorm

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent/image"
	"github.com/ingot-metal/ingot/pxe"
)

const (
	osImageSize = 64 << 20
	// receiveBuffer of an agent's connection. The kernel would let it grow until it holds
	// half an image that nobody has read.
	receiveBuffer = 64 << 10
)

// origin serves one image, and counts how often it is fetched.
func origin(t *testing.T) (pxe.ImageSource, []byte, *atomic.Int32) {
	t.Helper()
	content := pattern("image", osImageSize)
	sum := sha256.Sum256(content)
	var asked atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(srv.Close)
	return pxe.ImageSource{URL: srv.URL, Checksum: "sha256:" + hex.EncodeToString(sum[:])}, content, &asked
}

// agentClient is an agent's HTTP client. It speaks to whichever replica is at the
// boot server's address, and notes the ranges that it is given.
type agentClient struct {
	mu      sync.Mutex
	address string
	ranges  []string
}

func (c *agentClient) moveTo(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.address = address
}

func (c *agentClient) RoundTrip(r *http.Request) (*http.Response, error) {
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		c.mu.Lock()
		address := c.address
		c.mu.Unlock()
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return conn, conn.(*net.TCPConn).SetReadBuffer(receiveBuffer)
	}}
	res, err := t.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusPartialContent {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ranges = append(c.ranges, r.Header.Get("Range"))
	}
	return res, err
}

// TestReplicaKilledInMidTransfer: an agent that has read half of an image from a
// boot server that is killed reads on where it was: from another replica, or from
// the same one when it is back, which then fetches nothing again.
func TestReplicaKilledInMidTransfer(t *testing.T) {
	for _, tc := range []struct {
		name string
		// next is the replica that answers afterwards.
		next    func(t *testing.T, s setup, killed *process) *process
		fetches int32
	}{
		{"another replica", func(t *testing.T, s setup, _ *process) *process {
			s.Cache = t.TempDir()
			return start(t, s)
		}, 2},
		{"the same one, restarted", func(t *testing.T, s setup, killed *process) *process {
			s.HTTP = killed.HTTP
			return start(t, s)
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			source, want, asked := origin(t)
			s := setup{Dir: served(t), Cache: t.TempDir(), HTTP: "127.0.0.1:0", Image: source}
			first := start(t, s)
			agent := &agentClient{address: first.HTTP}
			src := image.OpenSource(t.Context(), image.Request{
				Client: &http.Client{Transport: agent}, Patience: time.Minute, Log: t.Logf,
				URL:   "http://boot-server/images/" + strings.TrimPrefix(source.Checksum, "sha256:"),
				Sleep: func(ctx context.Context, _ time.Duration) error { return sleep(ctx, 20*time.Millisecond) },
			})
			defer func() { _ = src.Close() }()
			var got bytes.Buffer
			if _, err := io.CopyN(&got, src, osImageSize/2); err != nil {
				t.Fatal(err)
			}
			first.kill()
			agent.moveTo(tc.next(t, s, first).HTTP)
			if _, err := got.ReadFrom(src); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("the image arrived wrong, as %d bytes", got.Len())
			}
			if len(agent.ranges) == 0 {
				t.Error("nothing was resumed: the image was read anew")
			}
			if n := asked.Load(); n != tc.fetches {
				t.Errorf("the image was fetched %d times, want %d", n, tc.fetches)
			}
		})
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
