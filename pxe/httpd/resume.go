// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// maxResumes is how often a download that was cut off is gone on with in a row
	// without resumeGain bytes in between; then it fails, and begins anew when a server
	// asks for the image again.
	maxResumes = 5
	resumeGain = 1 << 20
	// resumePause is between two tries: a source that restarts needs seconds.
	resumePause = 2 * time.Second
)

// resuming reads the body of an answer. Where that is cut off it asks for the rest (RFC
// 9110 §14.2), so that an image of gigabytes comes over a line that does not hold as
// long. A source that does not know ranges, or whose file has changed meanwhile (RFC
// 9110 §13.1.5), ends it with the error that it was cut off by.
type resuming struct {
	ctx context.Context
	// open asks for the file with these headers.
	open  func(context.Context, http.Header) (*http.Response, error)
	pause time.Duration

	resp *http.Response
	// at is how many bytes were read, since how many of them since the last cut.
	at, since int64
	cuts      int
}

// newResuming asks for the whole file.
func newResuming(ctx context.Context, pause time.Duration, open func(context.Context, http.Header) (*http.Response, error)) (*resuming, error) {
	resp, err := open(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &resuming{ctx: ctx, open: open, pause: pause, resp: resp}, nil
}

// Length of the file in bytes; negative if the source does not say it.
func (r *resuming) Length() int64 { return r.resp.ContentLength }

// Read implements io.Reader.
func (r *resuming) Read(p []byte) (int, error) {
	n, err := r.resp.Body.Read(p)
	r.at, r.since = r.at+int64(n), r.since+int64(n)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if !r.resume() {
		return n, err
	}
	return n, nil
}

// Close closes the body.
func (r *resuming) Close() error { return r.resp.Body.Close() }

// resume goes on where the body ended, if the source can.
func (r *resuming) resume() bool {
	validator := r.resp.Header.Get("ETag")
	if validator == "" || strings.HasPrefix(validator, "W/") { // a weak one vouches for no byte
		validator = r.resp.Header.Get("Last-Modified")
	}
	if r.since >= resumeGain {
		r.cuts = 0
	}
	for r.since = 0; r.cuts < maxResumes && r.ctx.Err() == nil; {
		r.cuts++
		select {
		case <-time.After(r.pause):
		case <-r.ctx.Done():
			return false
		}
		header := http.Header{"Range": {fmt.Sprintf("bytes=%d-", r.at)}}
		if validator != "" {
			header.Set("If-Range", validator)
		}
		resp, err := r.open(r.ctx, header)
		if err != nil {
			continue
		}
		if resp.StatusCode != http.StatusPartialContent || !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", r.at)) {
			_ = resp.Body.Close()
			return false
		}
		_ = r.resp.Body.Close()
		r.resp = resp
		return true
	}
	return false
}
