// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"io"
)

// errNoRanges: the server gives only the whole.
var errNoRanges = errors.New("the server gives no ranges")

// ranges reads parts of the image beside its stream, as patiently. It is an
// io.ReaderAt for one goroutine, and shares nothing with the stream, which another one
// reads.
type ranges struct {
	// ctx is kept because ReadAt, whose form is given, has to wait and reconnect.
	ctx  context.Context
	req  Request
	size int64
}

// ReadAt implements io.ReaderAt. It fails with errNoRanges where the server answers
// with the whole.
func (r ranges) ReadAt(p []byte, off int64) (int, error) {
	if r.size >= 0 && off+int64(len(p)) > r.size {
		return 0, io.EOF
	}
	part := OpenSource(r.ctx, r.req)
	part.read, part.size, part.end = off, r.size, off+int64(len(p))
	n, err := fill(part, p)
	if err == nil { // the end, so that the connection can be used again
		if _, err := part.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
	}
	return n, errors.Join(err, part.Close())
}
