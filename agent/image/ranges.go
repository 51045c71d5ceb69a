// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"io"
)

// errNoRanges reports that the server ignores range requests.
var errNoRanges = errors.New("the server does not support range requests")

// ranges reads parts of the image independently of its stream, with the same retries. It is
// an io.ReaderAt for one goroutine.
type ranges struct {
	// ctx is a field because ReadAt has no context and waits for reconnects.
	ctx  context.Context
	req  Request
	size int64
}

// ReadAt implements io.ReaderAt. It fails with errNoRanges if the server ignores ranges.
func (r ranges) ReadAt(p []byte, off int64) (int, error) {
	if r.size >= 0 && off+int64(len(p)) > r.size {
		return 0, io.EOF
	}
	part := OpenSource(r.ctx, r.req)
	part.read, part.size, part.end = off, r.size, off+int64(len(p))
	n, err := fill(part, p)
	if err == nil { // read up to the end, so that the connection can be reused
		if _, err := part.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
	}
	return n, errors.Join(err, part.Close())
}
