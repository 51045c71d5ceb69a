// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/test/eventually"
)

// give adds a claim of the namespaces for an image.
func (s *store) give(checksum string, namespaces ...string) string {
	source := s.images[checksum]
	source.Namespaces = namespaces
	s.images[checksum] = source
	return checksum
}

// still is a source that announces a length, sends one byte, and stalls.
func still(t *testing.T, announced string) (url string, asked *atomic.Int32) {
	t.Helper()
	asked = &atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Length", announced)
		_, _ = w.Write([]byte{1})
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	return srv.URL, asked
}

// comes waits until a fetch has received data.
func comes(t *testing.T, c *ImageCache, checksum string) {
	t.Helper()
	if _, err := c.Open(checksum); !errors.Is(err, ErrFetching) {
		t.Fatal(err)
	}
	eventually.Wait{Interval: time.Millisecond}.Until(t, "its first byte", eventually.Holds(func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.images[checksum].receiving
	}))
}

// A source that announces the whole cache and sends one byte only uses the space of one byte:
// other images stay and can be fetched.
func TestAnnouncedLengthTakesNoSpace(t *testing.T) {
	s := newStore(t)
	url, _ := still(t, "25000")
	announced := "sha256:" + strings.Repeat("a", 64)
	s.images[announced] = pxe.ImageSource{URL: url, Checksum: announced, Namespaces: []string{"a"}}
	mine, other := s.give(s.put('m', 10_000), "b"), s.give(s.put('o', 10_000), "b")
	now := time.Unix(1000, 0)
	c := startCache(t, CacheConfig{MaxBytes: 25_000, Sources: s.images, Now: func() time.Time { return now }}, nil)
	_ = mustGet(t, c, mine).Close()
	now = now.Add(2 * minIdleTime) // other namespaces' images may be evicted now
	comes(t, c, announced)
	if !onDisk(c, mine) {
		t.Error("an image was removed for bytes that were only announced")
	}
	_ = mustGet(t, c, other).Close()
	if got := settled(c); got > 20_001 {
		t.Errorf("%d bytes are counted", got)
	}
}

// Slow images of one namespace do not block the fetches of others.
func TestNamespacesHaveTheirOwnFetchers(t *testing.T) {
	s := newStore(t)
	url, _ := still(t, "1000")
	var slow []string
	for _, digit := range []string{"a", "b", "c"} {
		checksum := "sha256:" + strings.Repeat(digit, 64)
		s.images[checksum] = pxe.ImageSource{URL: url, Checksum: checksum, Namespaces: []string{"a"}}
		slow = append(slow, checksum)
	}
	good := s.give(s.put('g', 4), "b")
	c := startCache(t, CacheConfig{MaxBytes: 1 << 20, Sources: s.images, Stall: time.Hour}, nil)
	comes(t, c, slow[0])
	comes(t, c, slow[1])
	if _, err := c.Open(slow[2]); !errors.Is(err, ErrFetching) {
		t.Fatal(err)
	}
	_ = mustGet(t, c, good).Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.images[slow[2]].receiving {
		t.Errorf("more than %d images of one namespace are fetched at once", namespaceFetches)
	}
}

// The next image is one of the namespace with the fewest fetches, and one namespace cannot fill
// the queue.
func TestFetchQueue(t *testing.T) {
	q := newFetchQueue()
	for _, w := range []struct{ checksum, owners string }{{"a1", "a"}, {"a2", "a"}, {"a3", "a"}, {"ab", "a,b"}, {"b1", "b"}, {"b2", "b"}, {"c1", "c"}} {
		if !q.add(w.checksum, strings.Split(w.owners, ",")) {
			t.Fatal(w)
		}
	}
	var got []string
	var first waiting
	for {
		w, ok := q.take()
		if !ok {
			break
		}
		if len(got) == 0 {
			first = w
		}
		got = append(got, w.checksum)
	}
	if diff := cmp.Diff([]string{"a1", "ab", "c1", "a2", "b1"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	q.done(first)
	if w, ok := q.take(); !ok || w.checksum != "a3" {
		t.Errorf("after the end of one: %+v", w)
	}
	for range queueLength {
		q.add("many", []string{"m"})
	}
	if q.add("one more", []string{"m"}) || !q.add("another's", []string{"n"}) || !q.add("both's", []string{"m", "n"}) {
		t.Error("a namespace with a full queue keeps others out, or has more")
	}
}

func TestVictims(t *testing.T) {
	now := time.Unix(100_000, 0)
	type there struct {
		owners string
		size   int64
		unused time.Duration
	}
	for name, tc := range map[string]struct {
		images map[string]there
		owner  string
		n      int64
		want   []string
		enough bool
	}{
		"room is there":                                         {map[string]there{"x": {"a", 50, 0}}, "a", 50, nil, true},
		"those that no claim names go first":                    {map[string]there{"x": {"a", 50, time.Hour}, "y": {"", 50, 0}}, "a", 40, []string{"y"}, true},
		"the own ones, oldest first":                            {map[string]there{"x": {"a", 50, time.Minute}, "y": {"a", 50, time.Hour}}, "a", 60, []string{"y", "x"}, true},
		"one that has its share takes its own, not another's":   {map[string]there{"x": {"a", 60, 0}, "y": {"b", 40, time.Minute}}, "a", 50, []string{"x"}, true},
		"nor another's where its own are not enough":            {map[string]there{"x": {"a", 60, 0}, "y": {"b", 40, time.Minute}}, "a", 70, []string{"x"}, false},
		"but what rests for long":                               {map[string]there{"x": {"a", 60, 0}, "y": {"b", 40, minIdleTime}}, "a", 70, []string{"x", "y"}, true},
		"one that has less than its share takes from the other": {map[string]there{"x": {"a", 80, 0}, "y": {"b", 20, time.Hour}}, "b", 20, []string{"x"}, true},
		"a shared one is half of each":                          {map[string]there{"x": {"a,b", 60, time.Hour}, "y": {"b", 40, 0}}, "a", 20, []string{"y"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			images := pxe.Images{}
			c, err := NewImageCache(CacheConfig{Dir: t.TempDir(), MaxBytes: 100, Sources: images, Now: func() time.Time { return now }})
			must(t, err)
			for checksum, image := range tc.images {
				im := &testImage{image.owners, image.size, now.Add(-image.unused)}
				c.images[checksum] = im.image(now)
			}
			got, enough := c.victims(tc.n, []string{tc.owner})
			if diff := cmp.Diff(tc.want, got); diff != "" || enough != tc.enough {
				t.Errorf("enough %t (-want +got):\n%s", enough, diff)
			}
		})
	}
}

type testImage struct {
	owners   string
	size     int64
	lastUsed time.Time
}

func (i testImage) image(now time.Time) *image {
	return &image{state: stateVerified, size: i.size, lastUsed: i.lastUsed, ownersAt: now,
		owners: slices.DeleteFunc(strings.Split(i.owners, ","), func(s string) bool { return s == "" })}
}

// A fetch of a namespace that exceeds its share is canceled for one that does not, which waits
// for the space.
func TestLargeFetchIsPreempted(t *testing.T) {
	s := newStore(t)
	large := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 24_000))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(large.Close)
	greedy := "sha256:" + strings.Repeat("a", 64)
	s.images[greedy] = pxe.ImageSource{URL: large.URL, Checksum: greedy, Namespaces: []string{"a"}}
	small := s.give(s.put('s', 10_000), "b")
	c := startCache(t, CacheConfig{MaxBytes: 25_000, Sources: s.images, Stall: time.Hour}, nil)
	comes(t, c, greedy)
	eventually.Wait{Interval: time.Millisecond}.Until(t, "the large image to fill the cache", eventually.Holds(func() bool { return settled(c) == 24_000 }))
	_ = mustGet(t, c, small).Close()
	if _, err := get(t, c, greedy); !errors.Is(err, ErrCacheFull) {
		t.Errorf("the large fetch: %v, want %v", err, ErrCacheFull)
	}
}

// A very slow read ends when the space of its image is needed. Other reads continue.
func TestSlowReadIsEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		moves bool
		most  int64
		gives bool
	}{
		"it stands still, and room is needed": {false, 15_000, true},
		"it moves, and room is needed":        {true, 15_000, false},
		"it stands still, and there is room":  {false, 25_000, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			now := time.Unix(1000, 0)
			read, wanted := s.put('r', 10_000), s.put('w', 10_000)
			c := startCache(t, CacheConfig{MaxBytes: tc.most, Sources: s.images, Now: func() time.Time { return now }}, nil)
			f := mustGet(t, c, read)
			served := make(chan error, 1)
			go func() { // like sendfile, it fails at the next piece
				for {
					if _, err := f.Seek(0, io.SeekCurrent); err != nil {
						served <- f.Close()
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
			now = now.Add(minReadTime)
			if tc.moves {
				c.mu.Lock()
				for im := range c.images[read].readers.open {
					im.at = -minReadRate * int64(minReadTime/time.Second) // as if it had started earlier
				}
				c.mu.Unlock()
			}
			_, err := get(t, c, wanted)
			if gave := !onDisk(c, read); gave != tc.gives {
				t.Errorf("it gave way: %t, want %t", gave, tc.gives)
			}
			if noRoom := errors.Is(err, ErrCacheFull); noRoom != tc.moves {
				t.Errorf("the image that needs room: %v", err)
			}
			if !tc.gives {
				_ = f.File.Close()
			}
			<-served
		})
	}
}

// If an image came from one URL before, another namespace's slow URL is not used first, even
// after a restart or an eviction.
func TestKnownURLComesFirst(t *testing.T) {
	s := newStore(t)
	url, asked := still(t, "1000")
	checksum := s.put('a', 1000)
	good := s.images[checksum].URL
	dir := t.TempDir()
	t.Run("before", func(t *testing.T) { // ends with its cache
		_ = mustGet(t, startCache(t, CacheConfig{Dir: dir, MaxBytes: 1 << 20, Sources: s.images}, nil), checksum).Close()
	})
	must(t, os.Remove(filepath.Join(dir, strings.Replace(checksum, ":", "-", 1))))
	s.images[checksum] = pxe.ImageSource{URL: url, Mirrors: []string{good}, Checksum: checksum, Namespaces: []string{"a", "b"}}
	_ = mustGet(t, startCache(t, CacheConfig{Dir: dir, MaxBytes: 1 << 20, Sources: s.images}, nil), checksum).Close()
	if n := asked.Load(); n != 0 {
		t.Errorf("the other place was asked %d times", n)
	}
	index, err := os.ReadFile(filepath.Join(dir, indexName))
	if err != nil || strings.Contains(string(index), "127.0.0.1") {
		t.Errorf("the index has a URL, which may carry a signature: %s, %v", index, err)
	}
}

// Which URL is used, and its minimal rate.
func TestChooseURL(t *testing.T) {
	type fetchURL struct {
		url   string
		least int64
	}
	source := pxe.ImageSource{URL: "x", Mirrors: []string{"y", "z"}, Checksum: "c"}
	for name, tc := range map[string]struct {
		good     string
		failures int
		tries    map[string]*try
		want     fetchURL
	}{
		"the first":                             {want: fetchURL{"x", fastFetchRate}},
		"the one it came from":                  {good: "z", want: fetchURL{"z", fastFetchRate}},
		"not where that has failed":             {good: "z", failures: 1, tries: map[string]*try{"z": {1, 0}}, want: fetchURL{"x", fastFetchRate}},
		"another after a failure":               {failures: 1, tries: map[string]*try{"x": {1, 9}}, want: fetchURL{"y", fastFetchRate}},
		"the last one need not be quick":        {failures: 2, tries: map[string]*try{"x": {1, 9}, "y": {1, 9}}, want: fetchURL{"z", minFetchRate}},
		"the fastest, where all have failed":    {failures: 3, tries: map[string]*try{"x": {1, 5}, "y": {1, 9}, "z": {1, 0}}, want: fetchURL{"y", minFetchRate}},
		"no more haste after a number of tries": {failures: 3, tries: map[string]*try{"x": {3, 5}}, want: fetchURL{"y", minFetchRate}},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := NewImageCache(CacheConfig{Dir: t.TempDir(), MaxBytes: 100, Sources: pxe.Images{}})
			must(t, err)
			c.images["c"] = &image{failures: tc.failures, tries: tc.tries}
			if tc.good != "" {
				c.good.remember("c", urlKey(tc.good))
			}
			from := c.chooseURL(source)
			least, over := c.minRate(source, from)
			if got := (fetchURL{from, least}); got != tc.want || (least == fastFetchRate) != (over == c.cfg.Stall/2) {
				t.Errorf("%+v over %s, want %+v", got, over, tc.want)
			}
		})
	}
}

// I22: one tenant's claim with a slow URL does not block another tenant's claim with a good one.
func TestSlowFirstURLDoesNotBlock(t *testing.T) {
	s := newStore(t)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100000000")
		for pieceSize := make([]byte, 10*minFetchRate/20); ; { // five times minFetchRate: not too slow in general
			if _, err := w.Write(pieceSize); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}))
	t.Cleanup(slow.Close)
	checksum := s.put('a', 1000)
	good := s.images[checksum].URL
	named := &claims{images: pxe.Images{checksum: {URL: slow.URL, Checksum: checksum, Namespaces: []string{"a"}}}}
	cache := startCache(t, CacheConfig{Dir: t.TempDir(), MaxBytes: 1 << 30, Sources: named, Stall: 2 * time.Second}, nil)
	comes(t, cache, checksum)
	named.name(checksum, pxe.ImageSource{URL: slow.URL, Mirrors: []string{good}, Checksum: checksum, Namespaces: []string{"a", "b"}})
	eventually.Wait{}.Until(t, "the image", eventually.Works(func(context.Context) error {
		image, err := cache.Open(checksum)
		if err != nil {
			return err // the next try uses the good URL
		}
		return image.Close()
	}))
}

// Failures count for the URL, except for lack of space.
func TestRecordTry(t *testing.T) {
	c, err := NewImageCache(CacheConfig{Dir: t.TempDir(), MaxBytes: 100, Sources: pxe.Images{}})
	must(t, err)
	c.images["c"] = &image{}
	c.recordTry("c", "x", errPreempted, 10, time.Second)
	c.recordTry("c", "x", context.Canceled, 10, 2*time.Second)
	if diff := cmp.Diff(map[string]*try{"x": {1, 5}}, c.images["c"].tries, cmp.AllowUnexported(try{})); diff != "" {
		t.Error(diff)
	}
}
