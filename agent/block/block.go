// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package block

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrNotSupported reports that a device cannot zero a range without writes.
var ErrNotSupported = errors.New("not supported by this device")

// Device is a whole disk opened for writing.
type Device interface {
	io.ReaderAt
	io.WriterAt
	// Zero makes n bytes from off read as zero without writes (BLKZEROOUT, punched hole). With
	// ErrNotSupported nothing was changed.
	Zero(off, n int64) error
	// Sync returns when all written data is durable.
	Sync() error
	// DropCache discards cached content, so that the next read comes from the device. It does
	// nothing without a cache.
	DropCache() error
	// Size is in bytes and does not change.
	Size() int64
	Close() error
}

// SectorSize returns the sector size in bytes by which a device's partition tables count; 0:
// unknown.
func SectorSize(dev Device) int {
	if d, ok := dev.(interface{ SectorSize() int }); ok {
		return d.SectorSize()
	}
	return 0
}

// Flush makes all written data durable and drops the cache, so that reads verify the device.
func Flush(dev Device) error {
	if err := dev.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return dev.DropCache()
}

// zeroPiece is the unit of Device.Zero, and zeroChunk that of writes without support for it.
// The context is checked in between. If the kernel must send the zeroes, a piece takes some
// seconds.
const (
	zeroPiece = 256 << 20
	zeroChunk = 1 << 20
)

// Zero makes a range read as zero, by Device.Zero or by writes. It stops with the context's
// cause.
func Zero(ctx context.Context, dev Device, off, n int64) error {
	for n > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		piece := min(n, zeroPiece)
		err := dev.Zero(off, piece)
		if errors.Is(err, ErrNotSupported) {
			return writeZeroes(ctx, dev, off, n)
		}
		if err != nil {
			return err
		}
		off, n = off+piece, n-piece
	}
	return nil
}

func writeZeroes(ctx context.Context, dev Device, off, n int64) error {
	buf := make([]byte, min(n, zeroChunk))
	for n > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		chunk := min(n, int64(len(buf)))
		if _, err := dev.WriteAt(buf[:chunk], off); err != nil {
			return fmt.Errorf("write zeroes at %d: %w", off, err)
		}
		off, n = off+chunk, n-chunk
	}
	return nil
}

// IsZero reports whether all bytes are zero: the first byte is, and each byte equals the one
// before. bytes.Equal compares many bytes at a time.
func IsZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[:len(b)-1], b[1:])
}
