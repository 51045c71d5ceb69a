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
	// maxResumes limits the consecutive resumptions with less than resumeGain bytes in
	// between. After that the fetch fails, and the next request starts a new one.
	maxResumes = 5
	resumeGain = 1 << 20
	// resumePause is the time between two attempts: a source that restarts needs seconds.
	resumePause = 2 * time.Second
)

// resuming reads a response body and resumes it when it is interrupted (RFC 9110 section 14.2), so
// that unreliable lines can deliver large images. If the source does not support ranges or the file
// changed (RFC 9110 section 13.1.5), the read fails with the error of the interruption.
type resuming struct {
	ctx   context.Context
	open  func(context.Context, http.Header) (*http.Response, error)
	pause time.Duration

	resp *http.Response
	// at is the number of bytes read, since the number after the last interruption.
	at, since int64
	cuts      int
}

func newResuming(ctx context.Context, pause time.Duration, open func(context.Context, http.Header) (*http.Response, error)) (*resuming, error) {
	resp, err := open(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &resuming{ctx: ctx, open: open, pause: pause, resp: resp}, nil
}

// Length returns the size of the file in bytes, or a negative number if it is unknown.
func (r *resuming) Length() int64 { return r.resp.ContentLength }

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

func (r *resuming) Close() error { return r.resp.Body.Close() }

// resume continues the body after an interruption, if the source can.
func (r *resuming) resume() bool {
	validator := r.resp.Header.Get("ETag")
	if validator == "" || strings.HasPrefix(validator, "W/") { // weak ones do not guarantee equal bytes
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
