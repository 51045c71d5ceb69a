// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

// flaky is a web server whose first answers are interrupted after a number of bytes.
type flaky struct {
	content  []byte
	cuts     []int  // bytes before each interruption
	tag      string // ETag; empty means none
	changed  bool   // the tag changes after the first answer
	noRanges bool

	mu    sync.Mutex
	asked []string // the Range header of each request
}

func (f *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	n := len(f.asked)
	f.asked = append(f.asked, r.Header.Get("Range"))
	f.mu.Unlock()
	if f.tag != "" {
		tag := f.tag
		if f.changed && n > 0 {
			tag = `"another"`
		}
		w.Header().Set("ETag", tag)
	}
	if f.noRanges {
		r.Header.Del("Range")
	}
	if n < len(f.cuts) {
		w = &cutWriter{ResponseWriter: w, left: f.cuts[n]}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.content))
}

// cutWriter interrupts the connection.
type cutWriter struct {
	http.ResponseWriter
	left int
}

func (w *cutWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	_, _ = w.ResponseWriter.Write(p[:n])
	if w.left -= n; w.left == 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, nil
}

// An interrupted fetch resumes without repeating bytes if the source supports ranges and the
// file is unchanged. Otherwise the fetch fails.
func TestFetchResumes(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	for name, tc := range map[string]struct {
		source *flaky
		asked  []string
		fails  string
	}{
		"cut twice": {source: &flaky{tag: `"1"`, cuts: []int{10_000, 5}},
			asked: []string{"", "bytes=10000-", "bytes=10005-"}},
		"without a tag": {source: &flaky{cuts: []int{10_000}},
			asked: []string{"", "bytes=10000-"}},
		"a weak tag vouches for nothing": {source: &flaky{tag: `W/"1"`, cuts: []int{10_000}},
			asked: []string{"", "bytes=10000-"}},
		"another file by now": {source: &flaky{tag: `"1"`, changed: true, cuts: []int{10_000}},
			asked: []string{"", "bytes=10000-"}, fails: "after 10000 bytes"},
		"no ranges": {source: &flaky{noRanges: true, cuts: []int{10_000}},
			asked: []string{"", "bytes=10000-"}, fails: "after 10000 bytes"},
		"cut again and again": {source: &flaky{cuts: []int{10, 10, 10, 10, 10, 10, 10, 10}},
			asked: []string{"", "bytes=10-", "bytes=20-", "bytes=30-", "bytes=40-", "bytes=50-"}, fails: "after 60 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.source.content = content
			source := httptest.NewServer(tc.source)
			t.Cleanup(source.Close)
			checksum := sum(content)
			images := newCache(t, httpd.CacheConfig{Dir: t.TempDir(), MaxBytes: 1 << 20, ResumePause: time.Millisecond,
				Sources: pxe.Images{checksum: {URL: source.URL + "/image?signature=canary", Checksum: checksum}}})
			got, err := read(t, images, checksum)
			switch {
			case tc.fails == "" && (err != nil || !bytes.Equal(got, content)):
				t.Errorf("%d bytes, %v", len(got), err)
			case tc.fails != "" && (!errors.Is(err, httpd.ErrFetchFailed) || !strings.Contains(err.Error(), tc.fails) || strings.Contains(err.Error(), "canary")):
				t.Errorf("%v, want %q", err, tc.fails)
			}
			tc.source.mu.Lock()
			defer tc.source.mu.Unlock()
			if diff := cmp.Diff(tc.asked, slices.Clone(tc.source.asked)); diff != "" {
				t.Errorf("ranges asked for (-want +got):\n%s", diff)
			}
		})
	}
}
