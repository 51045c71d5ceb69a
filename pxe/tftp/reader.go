// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"errors"
	"fmt"
	"io"
)

// pieceSize is how much of a file is read at once, in bytes.
const pieceSize = 32 << 10

// reader reads a file in pieces that are larger than a block, and ahead of what
// is sent: the disk works while the client's acknowledgement is on its way.
type reader struct {
	file File
	// size is the file's when the transfer began.
	size int64
	// piece holds the bytes from offset on.
	piece  []byte
	offset int64
}

// newReader makes room for a piece of at least one window.
func newReader(file File, window int) *reader {
	size := file.Size()
	n := max(window, pieceSize/max(window, 1)*window)
	return &reader{file: file, size: size, piece: make([]byte, 0, min(int64(n), max(size, 1)))}
}

// copyAt fills p with the bytes at offset. It fails with io.ErrUnexpectedEOF if
// the file has become shorter.
func (r *reader) copyAt(p []byte, offset int64) error {
	for len(p) > 0 {
		if offset < r.offset || offset >= r.end() {
			if err := r.read(offset); err != nil {
				return err
			}
		}
		n := copy(p, r.piece[offset-r.offset:])
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}

// ahead reads the n bytes at offset unless they are here. What fails will fail
// again when it is needed.
func (r *reader) ahead(offset, n int64) {
	end := min(offset+n, r.size)
	if offset < end && (offset < r.offset || end > r.end()) {
		_ = r.read(offset)
	}
}

func (r *reader) end() int64 { return r.offset + int64(len(r.piece)) }

func (r *reader) read(offset int64) error {
	r.piece, r.offset = r.piece[:min(int64(cap(r.piece)), r.size-offset)], offset
	n, err := r.file.ReadAt(r.piece, offset)
	if n < len(r.piece) {
		r.piece = r.piece[:0]
		return fmt.Errorf("read file: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return nil
}
