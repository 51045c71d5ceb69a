// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/test/eventually"
)

func sum(b []byte) string { s := sha256.Sum256(b); return "sha256:" + hex.EncodeToString(s[:]) }

// origin is a web server with images that counts requests.
type origin struct {
	*httptest.Server
	mu     sync.Mutex
	files  map[string][]byte
	gate   chan struct{} // if not nil, answers wait for it
	asked  atomic.Int32
	images pxe.Images
}

func newOrigin(t *testing.T) *origin {
	t.Helper()
	o := &origin{files: map[string][]byte{}, images: pxe.Images{}}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		o.mu.Lock()
		b, ok := o.files[r.URL.Path]
		gate := o.gate
		o.mu.Unlock()
		if gate != nil {
			select {
			case <-gate:
			case <-r.Context().Done():
				return
			}
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(b)
	}))
	t.Cleanup(o.Close)
	return o
}

// put publishes an image under a checksum, which may be wrong.
func (o *origin) put(path string, content []byte, checksum string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files[path] = content
	o.images[checksum] = pxe.ImageSource{URL: o.URL + path, Checksum: checksum}
	return checksum
}

// clock is a settable clock.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }
func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// loopback allows sources on loopback.
func loopback(t *testing.T) httpd.Sources {
	t.Helper()
	s, err := httpd.ParseSources([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newCache(t *testing.T, cfg httpd.CacheConfig) *httpd.ImageCache {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 1 << 20
	}
	if cfg.Client == nil {
		cfg.Client = httpd.NewClient(httpd.ClientConfig{Allowed: loopback(t)})
	}
	c, err := httpd.NewImageCache(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// read opens an image and retries while it is being fetched.
func read(t *testing.T, c *httpd.ImageCache, checksum string) ([]byte, error) {
	t.Helper()
	var content []byte
	var err error
	eventually.Wait{Interval: time.Millisecond}.Until(t, "the image", eventually.Holds(func() bool {
		f, failed := c.Open(checksum)
		if err = failed; err == nil {
			content, err = io.ReadAll(f)
			_ = f.Close()
		}
		return !errors.Is(err, httpd.ErrFetching)
	}))
	return content, err
}

func TestImageIsFetchedOnce(t *testing.T) {
	o := newOrigin(t)
	content := bytes.Repeat([]byte("image "), 1000)
	checksum := o.put("/a.raw", content, sum(content))
	o.gate = make(chan struct{})
	now := &clock{now: time.Unix(1, 0)}
	h := &httpd.Handler{Images: newCache(t, httpd.CacheConfig{Sources: o.images, Now: now.Now})}
	path := "/images/" + strings.TrimPrefix(checksum, "sha256:")

	for range 5 {
		r := do(t, h, "GET", path)
		if r.StatusCode != 503 || !slices.Contains([]string{"2", "3", "4"}, r.Header.Get("Retry-After")) {
			t.Fatalf("status %d, Retry-After %q while it is fetched", r.StatusCode, r.Header.Get("Retry-After"))
		}
	}
	now.advance(time.Minute) // the clients keep waiting
	if r := do(t, h, "GET", path); r.StatusCode != 503 || !slices.Contains([]string{"6", "7", "8", "9", "10", "11", "12"}, r.Header.Get("Retry-After")) {
		t.Fatalf("status %d, Retry-After %q after a minute", r.StatusCode, r.Header.Get("Retry-After"))
	}
	close(o.gate)
	if _, err := read(t, h.Images, checksum); err != nil {
		t.Fatal(err)
	}
	r := do(t, h, "GET", path, "Range", "bytes=6-10")
	if got := body(t, r); r.StatusCode != 206 || got != "image" {
		t.Errorf("status %d, body %q", r.StatusCode, got)
	}
	if n := o.asked.Load(); n != 1 {
		t.Errorf("fetched %d times", n)
	}
}

func TestImageBySHA512(t *testing.T) {
	o := newOrigin(t)
	s := sha512.Sum512([]byte("image"))
	digest := hex.EncodeToString(s[:])
	o.put("/a", []byte("image"), "sha512:"+digest)
	h := &httpd.Handler{Images: newCache(t, httpd.CacheConfig{Sources: o.images})}
	if _, err := read(t, h.Images, "sha512:"+digest); err != nil {
		t.Fatal(err)
	}
	if got := body(t, do(t, h, "GET", "/images/"+digest)); got != "image" {
		t.Errorf("got %q", got)
	}
}

func TestUnknownImages(t *testing.T) {
	o := newOrigin(t)
	real := sum([]byte("image"))
	o.images[real] = pxe.ImageSource{URL: o.URL, Checksum: sum([]byte("another"))} // an inconsistent directory
	h := &httpd.Handler{Images: newCache(t, httpd.CacheConfig{Sources: o.images})}
	for _, digest := range []string{strings.TrimPrefix(real, "sha256:"), strings.Repeat("0", 64), "", "abc", strings.Repeat("Z", 64), strings.Repeat("0", 65)} {
		if r := do(t, h, "GET", "/images/"+digest); r.StatusCode != 404 {
			t.Errorf("%q: status %d", digest, r.StatusCode)
		}
	}
	if n := o.asked.Load(); n != 0 {
		t.Errorf("%d fetches of unknown images", n)
	}
}

func TestFailedFetches(t *testing.T) {
	for _, tc := range []struct {
		name, contains string
		prepare        func(o *origin) string
	}{
		{"another content", "checksum does not match", func(o *origin) string { return o.put("/a", []byte("evil"), sum([]byte("good"))) }},
		{"not there", "status 404", func(o *origin) string {
			c := o.put("/a", nil, sum([]byte("x")))
			delete(o.files, "/a")
			return c
		}},
		{"larger than the cache", "larger than the cache", func(o *origin) string {
			b := make([]byte, 2000)
			return o.put("/a", b, sum(b))
		}},
		{"no listener", "fetch image from", func(o *origin) string { c := o.put("/a", nil, sum(nil)); o.Close(); return c }},
		{"no web address", "not http, https or oci", func(o *origin) string {
			c := sum(nil)
			o.images[c] = pxe.ImageSource{URL: "file:///etc/shadow", Checksum: c}
			return c
		}},
		{"stalled", "no data received", func(o *origin) string { o.gate = make(chan struct{}); return o.put("/a", nil, sum(nil)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOrigin(t)
			checksum := tc.prepare(o)
			if s := o.images[checksum]; strings.HasPrefix(s.URL, "http") {
				o.images[checksum] = pxe.ImageSource{URL: s.URL + "?signature=canary", Checksum: checksum}
			}
			dir, now := t.TempDir(), &clock{now: time.Unix(1, 0)}
			stall := time.Duration(0)
			if tc.name == "stalled" {
				stall = 20 * time.Millisecond
			}
			h := &httpd.Handler{Images: newCache(t, httpd.CacheConfig{Dir: dir, MaxBytes: 1000, Sources: o.images, Stall: stall, Now: now.Now})}
			_, err := read(t, h.Images, checksum)
			if !errors.Is(err, httpd.ErrFetchFailed) || !strings.Contains(err.Error(), tc.contains) {
				t.Fatalf("got %v, want %q", err, tc.contains)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows the URL's signature: %v", err)
			}
			r := do(t, h, "GET", "/images/"+strings.TrimPrefix(checksum, "sha256:"))
			if said := r.Header.Get(agentapi.HeaderImageProblem); r.StatusCode != 502 || !strings.Contains(said, tc.contains) || strings.Contains(said, "canary") {
				t.Errorf("status %d, problem %q", r.StatusCode, said)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
				t.Errorf("left behind: %q", left)
			}
			// It is retried after a pause, and waiting clients get the error.
			now.advance(time.Minute)
			_, err = h.Images.Open(checksum)
			if again, ok := errors.AsType[*httpd.FetchingError](err); !errors.Is(err, httpd.ErrFetching) || !ok || again.Last == nil || !strings.Contains(again.Last.Error(), tc.contains) {
				t.Errorf("after a pause: %v", err)
			}
			r = do(t, h, "GET", "/images/"+strings.TrimPrefix(checksum, "sha256:"))
			if said := r.Header.Get(agentapi.HeaderImageProblem); !strings.Contains(said, tc.contains) {
				t.Errorf("status %d, problem %q", r.StatusCode, said)
			}
		})
	}
}

// If one URL of an image fails, the next is used.
func TestMirrors(t *testing.T) {
	o, now := newOrigin(t), &clock{now: time.Unix(1, 0)}
	content := []byte("image")
	checksum := o.put("/there", content, sum(content))
	o.images[checksum] = pxe.ImageSource{URL: o.URL + "/moved", Mirrors: []string{o.URL + "/expired", o.URL + "/there"}, Checksum: checksum}
	c := newCache(t, httpd.CacheConfig{Sources: o.images, Now: now.Now})
	for range 2 {
		if _, err := read(t, c, checksum); !errors.Is(err, httpd.ErrFetchFailed) {
			t.Fatalf("from a place that has it no more: %v", err)
		}
		now.advance(time.Minute)
	}
	if got, err := read(t, c, checksum); err != nil || !bytes.Equal(got, content) {
		t.Errorf("from the last place: %q, %v", got, err)
	}
}

func TestLeastRecentlyUsedIsEvictedFirst(t *testing.T) {
	o, dir, now := newOrigin(t), t.TempDir(), &clock{now: time.Unix(1, 0)}
	c := newCache(t, httpd.CacheConfig{Dir: dir, MaxBytes: 250, Sources: o.images, Now: now.Now})
	put := func(fill byte) string {
		b := bytes.Repeat([]byte{fill}, 100)
		return o.put("/"+string(fill), b, sum(b))
	}
	a, b, d := put('a'), put('b'), put('d')
	for _, checksum := range []string{a, b, a, d} { // a is used again after b
		now.advance(time.Second)
		if _, err := read(t, c, checksum); err != nil {
			t.Fatal(err)
		}
	}
	onDisk := func(checksum string) bool {
		_, err := os.Stat(filepath.Join(dir, strings.Replace(checksum, ":", "-", 1)))
		return err == nil
	}
	if !onDisk(a) || onDisk(b) || !onDisk(d) {
		t.Errorf("on disk: a %v, b %v, d %v; want b gone", onDisk(a), onDisk(b), onDisk(d))
	}
	if _, err := read(t, c, b); err != nil || o.asked.Load() != 4 {
		t.Errorf("b again: %v after %d fetches, want a fourth", err, o.asked.Load())
	}
}

// Files of an earlier process are verified before use, and damaged ones are never served.
func TestRestart(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	good, bad := o.put("/good", []byte("good"), sum([]byte("good"))), o.put("/bad", []byte("bad"), sum([]byte("bad")))
	file := func(checksum string) string { return filepath.Join(dir, strings.Replace(checksum, ":", "-", 1)) }
	for path, text := range map[string]string{
		file(good): "good", file(bad): "damaged", filepath.Join(dir, "fetch-1.part"): "half", filepath.Join(dir, "README"): "not ours"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := newCache(t, httpd.CacheConfig{Dir: dir, Sources: o.images})
	for checksum, want := range map[string]string{good: "good", bad: "bad"} {
		if got, err := read(t, c, checksum); err != nil || string(got) != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if n := o.asked.Load(); n != 1 {
		t.Errorf("%d fetches, want one for the damaged image", n)
	}
	if _, err := os.Stat(filepath.Join(dir, "fetch-1.part")); err == nil {
		t.Error("an unfinished fetch was left")
	}
	if err := os.Remove(file(good)); err != nil { // an operator cleans up
		t.Fatal(err)
	}
	if got, err := read(t, c, good); err != nil || string(got) != "good" {
		t.Errorf("after its file was removed: %q, %v", got, err)
	}
}

func TestCacheNeedsABound(t *testing.T) {
	if _, err := httpd.NewImageCache(httpd.CacheConfig{Dir: t.TempDir()}); err == nil {
		t.Error("made without a bound")
	}
}
