// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/test/eventually"
)

func TestFetchMonitor(t *testing.T) {
	type look struct {
		after   time.Duration
		unnamed bool
		arrived int64
		// others: there are untried URLs.
		others bool
	}
	const rate = 60 * minFetchRate // of a minute
	for name, c := range map[string]struct {
		looks []look
		want  error
	}{
		"fast enough":                     {looks: []look{{after: time.Minute}, {after: 2 * time.Minute, arrived: 2 * rate}, {after: 4 * time.Minute, arrived: 4 * rate}}},
		"slow from the beginning":         {looks: []look{{after: 2 * time.Minute, arrived: 2*rate - 1}}, want: errSlow},
		"slow, but not for long":          {looks: []look{{after: 2*time.Minute - 1}}},
		"slow after a fast beginning":     {looks: []look{{after: 2 * time.Minute, arrived: 1 << 30}, {after: 4 * time.Minute, arrived: 1<<30 + 1}}, want: errSlow},
		"a pause":                         {looks: []look{{after: time.Minute}, {after: 2 * time.Minute, arrived: 1 << 30}, {after: 3 * time.Minute, arrived: 1 << 30}}},
		"others come, and it is slow":     {looks: []look{{after: 29 * time.Second}, {after: 30 * time.Second, arrived: 30*fastFetchRate - 1, others: true}}, want: errSlow},
		"others come, and it is quick":    {looks: []look{{after: 30 * time.Second, arrived: 30 * fastFetchRate, others: true}, {after: 59 * time.Second, arrived: 30 * fastFetchRate, others: true}}},
		"others come late":                {looks: []look{{after: 100 * time.Second, arrived: 100 * minFetchRate}, {after: 101 * time.Second, arrived: 101 * minFetchRate, others: true}}, want: errSlow},
		"no claim for a moment":           {looks: []look{{after: 30 * time.Second, unnamed: true}, {after: 60 * time.Second}, {after: 119 * time.Second, unnamed: true}}},
		"no claim any more":               {looks: []look{{after: 30 * time.Second}, {after: 90 * time.Second, unnamed: true}}, want: errUnnamed},
		"longer than anybody waits":       {looks: []look{{after: 6 * time.Hour, arrived: 1 << 50}}, want: errTooLong},
		"nearly longer than anybody does": {looks: []look{{after: 6*time.Hour - 1, arrived: 1 << 50}}},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Unix(1, 0)
			w := newFetchMonitor(time.Minute, began)
			var err error
			for i, l := range c.looks {
				if err != nil {
					t.Fatalf("look %d: %v", i-1, err)
				}
				least, over := int64(minFetchRate), 2*time.Minute
				if l.others {
					least, over = fastFetchRate, 30*time.Second
				}
				err = w.check(began.Add(l.after), !l.unnamed, l.arrived, least, over)
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// claims name images until the test ends them.
type claims struct {
	mu     sync.Mutex
	images pxe.Images
}

func (c *claims) Image(checksum string) (pxe.ImageSource, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.images.Image(checksum)
}

func (c *claims) name(checksum string, source pxe.ImageSource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images[checksum] = source
}

func (c *claims) drop(checksum string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.images, checksum)
}

// Very slow sources, as many as there are fetchers, do not block the fetch of another image,
// with and without claims for their images.
func TestSlowSourcesAreCanceled(t *testing.T) {
	for name, named := range map[string]bool{"named": true, "named by no claim any more": false} {
		t.Run(name, func(t *testing.T) {
			slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "400000")
				for r.Context().Err() == nil {
					if _, err := w.Write([]byte{1}); err != nil {
						return
					}
					_ = http.NewResponseController(w).Flush()
					time.Sleep(time.Millisecond)
				}
			}))
			t.Cleanup(slow.Close)
			s := newStore(t)
			good := s.put('g', 4)
			images := &claims{images: s.images}
			trickling := []string{"sha256:" + strings.Repeat("a", 64), "sha256:" + strings.Repeat("b", 64)}
			for _, checksum := range trickling {
				images.images[checksum] = pxe.ImageSource{URL: slow.URL, Checksum: checksum}
			}
			c := startCache(t, CacheConfig{MaxBytes: 1 << 20, Sources: images, Stall: time.Second}, nil)
			for _, checksum := range trickling {
				if _, err := c.Open(checksum); !errors.Is(err, ErrFetching) {
					t.Fatal(err)
				}
				eventually.Wait{Interval: time.Millisecond}.Until(t, "its first byte", eventually.Holds(func() bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return c.images[checksum].receiving
				}))
			}
			if !named {
				for _, checksum := range trickling {
					images.drop(checksum)
				}
			}
			f, err := get(t, c, good)
			if err != nil {
				t.Fatal(err)
			}
			_ = f.Close()
			for _, checksum := range trickling {
				_, err := get(t, c, checksum)
				if want := map[bool]error{true: errSlow, false: ErrUnknownImage}[named]; !errors.Is(err, want) {
					t.Errorf("%v, want %v", err, want)
				}
			}
		})
	}
}

// A queued image that no claim names anymore is not fetched, which does not count as a failure.
func TestQueuedImageWithoutClaim(t *testing.T) {
	s := newStore(t)
	checksum := s.put('a', 10)
	images := &claims{images: s.images}
	source, _ := images.Image(checksum)
	c := startCache(t, CacheConfig{MaxBytes: 1 << 20, Sources: images}, func(c *ImageCache) {
		// Before Run starts the fetch.
		if _, err := c.Open(checksum); !errors.Is(err, ErrFetching) {
			t.Error(err)
		}
		images.drop(checksum)
	})
	eventually.Wait{Interval: time.Millisecond}.Until(t, "it to be forgotten", eventually.Holds(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.images[checksum] == nil
	}))
	images.name(checksum, source)
	f, err := get(t, c, checksum)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}
