// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Fetch returns the complete verified file, or an error.
func TestFetchVerifiesTheFile(t *testing.T) {
	content := bytes.Repeat([]byte("kernel"), 200_000)
	right := fmt.Sprintf("sha256:%x", sha256.Sum256(content))
	for name, tc := range map[string]struct {
		checksum string
		limit    int64
		breaks   bool // the first connection ends in the middle
		chunked  bool // the server does not state the length
		want     error
	}{
		"whole":                   {checksum: right, limit: int64(len(content))},
		"cut off once":            {checksum: right, limit: 1 << 30, breaks: true},
		"of unknown size":         {checksum: right, limit: 1 << 30, chunked: true},
		"another file":            {checksum: fmt.Sprintf("sha256:%x", sha256.Sum256(nil)), limit: 1 << 30, want: ErrChecksum},
		"no checksum":             {limit: 1 << 30, want: ErrChecksum},
		"too large":               {checksum: right, limit: int64(len(content)) - 1, want: ErrTooMuch},
		"too large, size unknown": {checksum: right, limit: int64(len(content)) - 1, chunked: true, want: ErrTooMuch},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				switch {
				case tc.breaks && calls == 1:
					w.Header().Set("Content-Length", fmt.Sprint(len(content)))
					_, _ = w.Write(content[:len(content)/2])
					panic(http.ErrAbortHandler)
				case tc.chunked:
					w.Header().Set("Transfer-Encoding", "chunked")
					_, _ = w.Write(content)
				default:
					http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
				}
			}))
			defer server.Close()
			var got bytes.Buffer
			last := int64(0)
			n, err := Fetch(t.Context(), Request{Client: server.Client(), URL: server.URL},
				File{Checksum: tc.checksum, Limit: tc.limit, OnRead: func(bytes int64, _ int) { last = bytes }}, &got)
			if !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if int64(got.Len()) > tc.limit {
				t.Errorf("%d bytes were written, at most %d may be", got.Len(), tc.limit)
			}
			if tc.want == nil && (n != int64(len(content)) || !bytes.Equal(got.Bytes(), content) || last != n) {
				t.Errorf("%d bytes, %d of them reported, %d wanted", n, last, len(content))
			}
		})
	}
}
