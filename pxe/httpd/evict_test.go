// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/test/eventually"
)

// store is a web server with images, with or without lengths.
type store struct {
	images  pxe.Images
	content map[string][]byte
	// silent omits Content-Length. lie is added to the announced length.
	silent bool
	lie    int
	url    string
}

func newStore(t *testing.T) *store {
	t.Helper()
	s := &store{images: pxe.Images{}, content: map[string][]byte{}}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := s.content[r.URL.Path]
	if !s.silent {
		w.Header().Set("Content-Length", fmt.Sprint(len(b)+s.lie))
	}
	for len(b) > 0 {
		n := min(len(b), 1000)
		if _, err := w.Write(b[:n]); err != nil {
			return
		}
		b = b[n:]
		if s.silent {
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// put publishes n bytes and returns their checksum.
func (s *store) put(fill byte, n int) string {
	b := bytes.Repeat([]byte{fill}, n)
	digest := sha256.Sum256(b)
	checksum := "sha256:" + hex.EncodeToString(digest[:])
	path := fmt.Sprintf("/%c%d", fill, n)
	s.content[path] = b
	s.images[checksum] = pxe.ImageSource{URL: s.url + path, Checksum: checksum}
	return checksum
}

func startCache(t *testing.T, cfg CacheConfig, change func(*ImageCache)) *ImageCache {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	allowed, err := ParseSources([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Client = NewClient(ClientConfig{Allowed: allowed})
	c, err := NewImageCache(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
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

// get opens an image once it is available or has failed.
func get(t *testing.T, c *ImageCache, checksum string) (*OpenImage, error) {
	t.Helper()
	var f *OpenImage
	var err error
	eventually.Wait{Interval: time.Millisecond}.Until(t, "the image", eventually.Holds(func() bool {
		f, err = c.Open(checksum)
		return !errors.Is(err, ErrFetching)
	}))
	return f, err
}

func mustGet(t *testing.T, c *ImageCache, checksum string) *OpenImage {
	t.Helper()
	f, err := get(t, c, checksum)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func onDisk(c *ImageCache, checksum string) bool {
	_, err := os.Stat(c.path(checksum))
	return err == nil
}

// settled returns the cache's disk usage when nothing runs.
func settled(c *ImageCache) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used()
}

// An open image is never evicted. A fetch that needs its space waits.
func TestServedImagesStay(t *testing.T) {
	for _, silent := range []bool{false, true} {
		t.Run(fmt.Sprintf("length unknown %t", silent), func(t *testing.T) {
			s := newStore(t)
			s.silent = silent
			now := time.Unix(1000, 0)
			c := startCache(t, CacheConfig{MaxBytes: 25_000, Sources: s.images, Now: func() time.Time { return now }}, nil)
			a, b, d := s.put('a', 10_000), s.put('b', 10_000), s.put('d', 20_000)
			first, second := mustGet(t, c, a), mustGet(t, c, b)
			if _, err := get(t, c, d); !errors.Is(err, ErrCacheFull) || !errors.Is(err, ErrFetchFailed) {
				t.Fatalf("got %v, want no room", err)
			}
			if !onDisk(c, a) || !onDisk(c, b) || onDisk(c, d) {
				t.Error("an image that is being served was removed")
			}
			h := &Handler{Images: c}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/images/"+strings.TrimPrefix(d, "sha256:"), nil))
			if w.Code != 503 || len(w.Header().Get("Retry-After")) != 2 { // 10 to 20
				t.Errorf("status %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
			if got := settled(c); got != 20_000 {
				t.Errorf("%d bytes are counted, want 20000", got)
			}
			_ = first.Close()
			_ = first.Close() // a second Close counts once
			now = now.Add(time.Minute)
			if _, err := get(t, c, d); !errors.Is(err, ErrCacheFull) { // b alone leaves 15,000
				t.Fatalf("got %v, want no room", err)
			}
			_ = second.Close()
			now = now.Add(time.Minute)
			f := mustGet(t, c, d)
			defer func() { _ = f.Close() }()
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, s.content["/d20000"]) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
			if got := settled(c); got > 25_000 {
				t.Errorf("%d bytes are counted", got)
			}
		})
	}
}

// Nothing is evicted for an image that would not fit anyway.
func TestNothingIsEvictedInVain(t *testing.T) {
	s := newStore(t)
	now := time.Unix(1000, 0)
	c := startCache(t, CacheConfig{MaxBytes: 25_000, Sources: s.images, Now: func() time.Time { return now }}, nil)
	served, idle, large := s.put('a', 10_000), s.put('b', 10_000), s.put('d', 20_000)
	f := mustGet(t, c, served)
	defer func() { _ = f.Close() }()
	_ = mustGet(t, c, idle).Close()
	now = now.Add(time.Minute)
	if _, err := get(t, c, large); !errors.Is(err, ErrCacheFull) {
		t.Fatalf("got %v, want no room", err)
	}
	if !onDisk(c, idle) {
		t.Error("an image was removed for another that does not fit next to those in use")
	}
}

// The announced length is wrong, or the body never ends.
func TestSourcesThatLie(t *testing.T) {
	for _, tc := range []struct {
		name     string
		change   func(*store)
		size     int
		contains string
	}{
		{"longer than announced", func(s *store) { s.lie = -1000 }, 5000, "checksum does not match"},
		{"shorter than announced", func(s *store) { s.lie = 10 }, 5000, "unexpected EOF"},
		{"announced as larger than the cache", func(s *store) { s.lie = 1 << 40 }, 5000, "larger than the cache"},
		{"larger than the cache, without a length", func(s *store) { s.silent = true }, 20_000, "larger than the cache"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, dir := newStore(t), t.TempDir()
			tc.change(s)
			c := startCache(t, CacheConfig{Dir: dir, MaxBytes: 10_000, Sources: s.images}, nil)
			if _, err := get(t, c, s.put('x', tc.size)); err == nil || !strings.Contains(err.Error(), tc.contains) {
				t.Errorf("got %v, want %q", err, tc.contains)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 || settled(c) != 0 {
				t.Errorf("left behind %q, %d bytes counted", left, settled(c))
			}
		})
	}
}

// If the disk is full below the cache's limit (ENOSPC), old images are evicted. Images in use
// stay, and the fetch fails cleanly.
func TestFullDisk(t *testing.T) {
	s := newStore(t)
	now := time.Unix(1000, 0)
	c := startCache(t, CacheConfig{MaxBytes: 1 << 20, Sources: s.images, Now: func() time.Time { return now }}, nil)
	a, b, d := s.put('a', 1000), s.put('b', 1000), s.put('d', 1000)
	_ = mustGet(t, c, a).Close()
	used := mustGet(t, c, b)
	defer func() { _ = used.Close() }()
	c.mu.Lock()
	c.create = func(dir, _ string) (*os.File, error) {
		// Through a link, because the cache removes its temporary file.
		link := filepath.Join(dir, "fetch-full.part")
		if err := os.Symlink("/dev/full", link); err != nil {
			return nil, err
		}
		return os.OpenFile(link, os.O_WRONLY, 0)
	}
	c.mu.Unlock()
	if _, err := get(t, c, d); !errors.Is(err, ErrCacheFull) || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("got %v", err)
	}
	if onDisk(c, a) || !onDisk(c, b) {
		t.Errorf("old image still there %t, one in use %t", onDisk(c, a), onDisk(c, b))
	}
	if got := settled(c); got != 1000 {
		t.Errorf("%d bytes are counted, want 1000", got)
	}
}

// After a restart images are served without reading them if and only if they are the verified
// files.
func TestRestartKnowsItsFiles(t *testing.T) {
	s := newStore(t)
	checksum := s.put('a', 10_000)
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, path string)
		known  bool
	}{
		{"untouched", func(*testing.T, string) {}, true},
		{"overwritten, with the same size and time", func(t *testing.T, path string) {
			info, err := os.Stat(path)
			must(t, err)
			must(t, os.WriteFile(path, bytes.Repeat([]byte("b"), 10_000), 0o600))
			must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
		}, false},
		{"replaced by another file", func(t *testing.T, path string) {
			must(t, os.WriteFile(path+".new", bytes.Repeat([]byte("b"), 10_000), 0o600))
			must(t, os.Rename(path+".new", path))
		}, false},
		{"cut off", func(t *testing.T, path string) { must(t, os.Truncate(path, 9_999)) }, false},
		{"index lost", func(t *testing.T, path string) { must(t, os.Remove(filepath.Join(filepath.Dir(path), indexName))) }, false},
		{"index damaged", func(t *testing.T, path string) {
			must(t, os.WriteFile(filepath.Join(filepath.Dir(path), indexName), []byte(`{"images": {`), 0o600))
		}, false},
		{"gone", func(t *testing.T, path string) { must(t, os.Remove(path)) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := CacheConfig{Dir: dir, MaxBytes: 1 << 20, Sources: s.images}
			t.Run("before", func(t *testing.T) { // ends with its cache
				c := startCache(t, cfg, nil)
				_ = mustGet(t, c, checksum).Close()
			})
			tc.change(t, filepath.Join(dir, strings.Replace(checksum, ":", "-", 1)))
			c, err := NewImageCache(cfg) // without Run, so it can neither read nor fetch
			must(t, err)
			f, err := c.Open(checksum)
			if known := err == nil; known != tc.known || !known && !errors.Is(err, ErrFetching) {
				t.Fatalf("served at once %t, %v", known, err)
			}
			if err == nil {
				_ = f.Close()
			}
			c = startCache(t, cfg, nil)
			f = mustGet(t, c, checksum)
			defer func() { _ = f.Close() }()
			if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, s.content["/a10000"]) {
				t.Errorf("served %d bytes that are wrong, %v", len(got), err)
			}
		})
	}
}

func TestChangedFileIsNotServed(t *testing.T) {
	s := newStore(t)
	c := startCache(t, CacheConfig{MaxBytes: 1 << 20, Sources: s.images}, nil)
	checksum := s.put('a', 10_000)
	_ = mustGet(t, c, checksum).Close()
	must(t, os.WriteFile(c.path(checksum), bytes.Repeat([]byte("b"), 10_000), 0o600))
	f := mustGet(t, c, checksum)
	defer func() { _ = f.Close() }()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, s.content["/a10000"]) {
		t.Errorf("served %d bytes that are wrong, %v", len(got), err)
	}
}

// A source that keeps failing is retried less and less often.
func TestFailurePauseGrows(t *testing.T) {
	im := &image{}
	var got []time.Duration
	for range 6 {
		im.failures++
		got = append(got, im.pause())
	}
	if fmt.Sprint(got) != "[5s 10s 20s 40s 1m0s 1m0s]" {
		t.Errorf("rests for %v", got)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Clients get the previous failure until the new fetch receives data.
func TestFetchingAgain(t *testing.T) {
	s := newStore(t)
	c := startCache(t, CacheConfig{MaxBytes: 25_000, Sources: s.images}, nil)
	a := s.put('a', 10_000)
	im := &image{failure: errChecksum, failures: 1}
	c.mu.Lock()
	c.images[a] = im
	err := im.fetching(time.Time{})
	c.mu.Unlock()
	if retry, ok := errors.AsType[*FetchingError](err); !ok || !errors.Is(retry.Last, errChecksum) || !errors.Is(err, ErrFetching) || errors.Is(err, errChecksum) {
		t.Errorf("before anything comes: %v", err)
	}
	_ = mustGet(t, c, a).Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	im.failure = errChecksum // data arrives but is not verified yet
	if again, ok := errors.AsType[*FetchingError](im.fetching(time.Time{})); !ok || again.Last != nil || again.Error() != ErrFetching.Error() {
		t.Errorf("while it comes: %v", again)
	}
}
