// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/pxe"
)

// counted is a directory that counts lookups.
type counted struct {
	claims
	asked int
}

func (c *counted) Image(checksum string) (pxe.ImageSource, bool) {
	c.mu.Lock()
	c.asked++
	c.mu.Unlock()
	return c.claims.Image(checksum)
}

// since returns the number of lookups since the last call.
func (c *counted) since() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.asked
	c.asked = 0
	return n
}

// many is the number of clients in a rollout.
const many = 500

// askAll requests an image by many clients at once and returns the different answers.
func askAll(c *ImageCache, checksum string) map[string]bool {
	var wg sync.WaitGroup
	answers := make(chan string, many)
	for range many {
		wg.Go(func() {
			f, err := c.Open(checksum)
			if err == nil {
				err = f.Close()
			}
			answers <- fmt.Sprint(err)
		})
	}
	wg.Wait()
	close(answers)
	different := map[string]bool{}
	for answer := range answers {
		different[answer] = true
	}
	return different
}

// The directory, which looks at all claims of an image, is asked rarely, regardless of the number
// of clients and the state of the image.
func TestClientsDoNotAskTheDirectory(t *testing.T) {
	s := newStore(t)
	good, bad := s.put('a', 1000), s.put('b', 1000)
	s.content["/b1000"] = []byte("another")
	now := time.Unix(1000, 0)
	directory := &counted{claims: claims{images: s.images}}
	cfg := CacheConfig{Dir: t.TempDir(), MaxBytes: 1 << 20, Sources: directory, Now: func() time.Time { return now }}

	idle, err := NewImageCache(cfg) // without Run, so images stay queued
	must(t, err)
	for range 3 {
		got := askAll(idle, good)
		if diff := cmp.Diff(map[string]bool{ErrFetching.Error(): true}, got); diff != "" {
			t.Error(diff)
		}
		if n := directory.since(); n != 1 {
			t.Errorf("asked %d times for a queued image", n)
		}
		now = now.Add(referenceTTL)
	}

	running := startCache(t, cfg, nil)
	_ = mustGet(t, running, good).Close()
	if _, err := get(t, running, bad); !errors.Is(err, errChecksum) {
		t.Fatal(err)
	}
	for checksum, want := range map[string]string{good: "<nil>", bad: ErrFetchFailed.Error()} {
		now = now.Add(referenceTTL)
		_ = directory.since()
		for answer := range askAll(running, checksum) {
			if !strings.HasPrefix(answer, want) {
				t.Errorf("%s, want %s", answer, want)
			}
		}
		if n := directory.since(); n != 1 {
			t.Errorf("asked %d times for an image that is there or has failed", n)
		}
	}
}

// An image is served for a moment after the last claim is gone, and at once after the first
// claim exists.
func TestNamedImages(t *testing.T) {
	s := newStore(t)
	checksum := s.put('a', 1000)
	source := s.images[checksum]
	now := time.Unix(1000, 0)
	images := &claims{images: s.images}
	c := startCache(t, CacheConfig{MaxBytes: 1 << 20, Sources: images, Now: func() time.Time { return now }}, nil)
	_ = mustGet(t, c, checksum).Close()
	now = now.Add(referenceTTL) // what the fetch has asked is forgotten
	for _, step := range []struct {
		name  string
		named bool
		after time.Duration
		want  error
	}{
		{"named", true, 0, nil},
		{"named a moment ago", false, referenceTTL - 1, nil},
		{"named some time ago", false, 1, ErrUnknownImage},
		{"still not", false, 0, ErrUnknownImage},
		{"named again", true, 0, nil},
		{"asked for meanwhile, and named no more", false, referenceTTL, ErrUnknownImage},
		{"in another life", true, time.Hour, nil},
	} {
		if images.drop(checksum); step.named {
			images.name(checksum, source)
		}
		now = now.Add(step.after)
		f, err := c.Open(checksum)
		if err == nil {
			_ = f.Close()
		}
		if !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
}

// The cache is bounded, whatever checksums are requested.
func TestReferencesAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	images := pxe.Images{}
	n := referenceCache{directory: images, now: func() time.Time { return now }}
	n.namespaces.Max = 8
	for i := range 1000 {
		unknown, named := fmt.Sprintf("sha256:%063d0", i), fmt.Sprintf("sha256:%063d1", i)
		images[named] = pxe.ImageSource{Checksum: named}
		isNamed := func(checksum string) bool { _, ok := n.recent(checksum); return ok }
		if isNamed(unknown) || !isNamed(named) {
			t.Fatal("not what the directory says")
		}
		delete(images, named)
		now = now.Add(referenceTTL / 4)
	}
	if count := n.namespaces.Len(); count > 8 {
		t.Errorf("%d are remembered", count)
	}
}

// A queued image is fetched from the URL that the claims name when its fetch starts.
func TestURLIsReadWhenFetchStarts(t *testing.T) {
	s := newStore(t)
	checksum := s.put('a', 1000)
	there := s.images[checksum]
	images := &claims{images: s.images}
	images.name(checksum, pxe.ImageSource{URL: s.url + "/moved", Checksum: checksum})
	c := startCache(t, CacheConfig{MaxBytes: 1 << 20, Sources: images}, func(c *ImageCache) {
		if _, err := c.Open(checksum); !errors.Is(err, ErrFetching) {
			t.Error(err)
		}
		images.name(checksum, there)
	})
	f, err := get(t, c, checksum)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}
