// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrTooMuch: the source is longer than the caller has room for.
var ErrTooMuch = errors.New("file is too large")

// File is one file to fetch as it is.
type File struct {
	// Checksum of the source: "sha256:<hex>" or "sha512:<hex>".
	Checksum string
	// Limit is the most that may be written, in bytes.
	Limit int64
	// OnRead is called with the bytes so far and their percentage, 0 when the size is
	// unknown. It must not block; nil does nothing.
	OnRead func(bytes int64, percent int)
}

// Fetch copies a source as it is, and returns its length once its checksum is verified:
// before that, what was written must not be used. It fails with ErrTooMuch before it
// writes more than it may, and else as Open and Write do.
func Fetch(ctx context.Context, req Request, file File, to io.Writer) (int64, error) {
	sum, hash, err := parseChecksum(file.Checksum)
	if err != nil {
		return 0, err
	}
	source := OpenSource(ctx, req)
	defer func() { _ = source.Close() }()
	size, err := source.Size()
	if err != nil {
		return 0, err
	}
	if size > file.Limit {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooMuch, size, file.Limit)
	}
	buf := make([]byte, readSize)
	for {
		n, err := source.Read(buf)
		if source.Offset() > file.Limit {
			return 0, fmt.Errorf("%w: more than %d bytes", ErrTooMuch, file.Limit)
		}
		_, _ = hash.Write(buf[:n]) // never fails (hash.Hash)
		if _, err := to.Write(buf[:n]); err != nil {
			return 0, fmt.Errorf("write: %w", err)
		}
		if n > 0 && file.OnRead != nil {
			file.OnRead(source.Offset(), percent(source.Offset(), size))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read the file: %w", err)
		}
	}
	if got := hash.Sum(nil); !bytes.Equal(got, sum) {
		return 0, fmt.Errorf("%w: the source of %d bytes has %x, the order says %x", ErrChecksum, source.Offset(), got, sum)
	}
	return source.Offset(), nil
}
