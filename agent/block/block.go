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

// ErrNotSupported is returned by Zero where the device has no way to zero a range
// without being written.
var ErrNotSupported = errors.New("not supported by this device")

// Device is one whole disk, opened for writing.
type Device interface {
	io.ReaderAt
	io.WriterAt
	// Zero makes n bytes from off read as zero without being sent zeroes
	// (BLKZEROOUT, a punched hole). It returns ErrNotSupported where the device
	// cannot; then nothing changed.
	Zero(off, n int64) error
	// Sync returns when everything written is durable.
	Sync() error
	// DropCache forgets cached content, so that the next read comes from the
	// device. A device without a cache does nothing.
	DropCache() error
	// Size is in bytes and does not change.
	Size() int64
	Close() error
}

// SectorSize is the unit in which partition tables of a device count, in bytes; 0 where it
// does not say.
func SectorSize(dev Device) int {
	if d, ok := dev.(interface{ SectorSize() int }); ok {
		return d.SectorSize()
	}
	return 0
}

// zeroPiece is zeroed by the device at a time, and zeroChunk written where it cannot
// zero by itself. Between two of them the work can be called off; a disk to which the
// kernel has to send the zeroes takes some seconds for a piece.
const (
	zeroPiece = 256 << 20
	zeroChunk = 1 << 20
)

// Zero makes a range read as zero, by the device's own means or by writing. The
// context's end stops it in between, with its cause.
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

// IsZero says whether all bytes are zero: the first is, and each is as the one before.
// Comparing is what the standard library does many bytes at a time.
func IsZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[:len(b)-1], b[1:])
}
