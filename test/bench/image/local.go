// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
)

// local answers requests with the files of a directory, read as qemu-img reads its own:
// with no network and no server in between. It knows ranges of the form that the agent
// asks for.
type local struct{ dir string }

// RoundTrip implements http.RoundTripper.
func (l local) RoundTrip(req *http.Request) (*http.Response, error) {
	f, err := os.Open(filepath.Join(l.dir, path.Base(req.URL.Path)))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	resp := &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Request: req, ContentLength: info.Size(), Body: f,
	}
	ranges := req.Header.Get("Range")
	if ranges == "" {
		return resp, nil
	}
	first, last := int64(0), info.Size()-1
	if _, err := fmt.Sscanf(ranges, "bytes=%d-%d", &first, &last); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.Join(fmt.Errorf("range %q: %w", ranges, err), f.Close())
	}
	resp.StatusCode, resp.ContentLength = http.StatusPartialContent, last-first+1
	resp.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", first, last, info.Size()))
	resp.Body = section{io.NewSectionReader(f, first, last-first+1), f}
	return resp, nil
}

// section is a part of a file that is closed with it.
type section struct {
	io.Reader
	io.Closer
}
