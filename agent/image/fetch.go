// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrTooMuch reports that the source is longer than the caller's limit.
var ErrTooMuch = errors.New("file is too large")

type File struct {
	// Checksum of the source: "sha256:<hex>" or "sha512:<hex>".
	Checksum string
	// Limit is the maximum size in bytes.
	Limit int64
	// OnRead gets the bytes so far and their percentage, 0 if the size is unknown. It must not
	// block. Nil: no progress.
	OnRead func(bytes int64, percent int)
}

// Fetch copies a source unchanged and returns its length once its checksum is verified. On
// error the data in to must not be used. Fetch writes at most file.Limit bytes and fails with
// ErrTooMuch if the source is longer; other errors are those of Open and Write.
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
		return 0, fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooMuch, size, file.Limit)
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
	return source.Offset(), checkSum(hash, sum, source.Offset())
}
