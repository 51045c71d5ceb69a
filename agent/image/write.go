// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/agent/block"
)

// Errors of the disk.
var (
	// ErrTooLarge reports that the decoded image does not fit on the disk.
	ErrTooLarge = errors.New("image is larger than the disk")
	// ErrReserved reports that the image has content in the reserved range.
	ErrReserved = errors.New("image has content in a reserved range")
	// ErrSectors reports that the image's partition table is for another sector size.
	ErrSectors = errors.New("image is for another sector size")
	// ErrReadBack reports that the disk did not return the written data.
	ErrReadBack = errors.New("disk does not return what was written")
)

const (
	// headSize is the part of the image that is written last. tailSize is the part of the disk
	// that is cleared first and written with the head: firmware uses the second partition table
	// there if the first is invalid.
	headSize = 1 << 20
	tailSize = 1 << 20
	// chunkSize is the unit of decoding and writing. At least chunks of them are in flight.
	chunkSize = 4 << 20
	chunks    = 4
	// readSize is the unit of reading and hashing the source.
	readSize = 256 << 10
	// grain is the minimum run of zeroes that is zeroed instead of written.
	grain = 128 << 10
)

// Range is a part of a disk, in bytes.
type Range struct{ Off, Len int64 }

func (r Range) end() int64 { return r.Off + r.Len }

// Options of a Write.
type Options struct {
	// Reserved is never written. It must lie in the first MiB.
	Reserved Range
	// OnWrite is called for every chunk with the bytes done and the percentage of the source,
	// 0 if its size is unknown. OnVerify gets the percentage of the read-back. Neither may
	// block. Nil: no progress.
	OnWrite  func(written int64, percent int)
	OnVerify func(percent int)
	// OnTables gets, before OnWrite, the bytes of a qcow2 image's tables read so far. It must
	// not block either.
	OnTables func(read int64)
}

// Result of a Write.
type Result struct {
	// Bytes is the size of the decoded image, SourceBytes that of the source.
	Bytes, SourceBytes int64
}

// chunk is one piece of the decoded image. Those of a raw image come in sequence.
type chunk struct {
	off  int64
	data []byte
	// hole is the length of a range that reads as zero and has no data.
	hole int64
}

// Write writes the image, verifies the source's checksum and samples of the disk, writes the
// first MiB, and returns when everything is durable. It works once. The end of the context
// stops it between two chunks, or within a run of zeroes.
func (m *Image) Write(ctx context.Context, dev block.Device, opts Options) (Result, error) {
	if m.rawSize > dev.Size() {
		return Result{}, fmt.Errorf("%w: the image has %d bytes, the disk has %d", ErrTooLarge, m.rawSize, dev.Size())
	}
	if opts.Reserved.end() > headSize || dev.Size() < headSize+tailSize {
		return Result{}, fmt.Errorf("%w: disk of %d bytes, reserved up to %d", ErrTooLarge, dev.Size(), opts.Reserved.end())
	}
	if opts.OnTables == nil {
		opts.OnTables = func(int64) {}
	}
	w := &writer{dev: dev, opts: opts, size: m.RawSize()}
	if err := w.clear(ctx); err != nil {
		return Result{}, err
	}
	if err := m.pipe(ctx, w); err != nil {
		return Result{}, err
	}
	if err := w.finish(ctx); err != nil {
		return Result{}, err
	}
	return Result{Bytes: w.end, SourceBytes: m.source.Offset()}, nil
}

// pipe runs the stages: read, hash, decode, write. A wrong checksum takes precedence over the
// decoding error that it causes.
func (m *Image) pipe(ctx context.Context, w *writer) error {
	size, _ := m.source.Size()
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, m.stop)()
	ahead := newReadAhead(ctx, m.buffered, m.hash)
	w.percent = func() int { return percent(ahead.consumed.Load(), size) }
	flight := chunks
	if m.disk == Qcow2 { // each worker holds one buffer
		flight += workers()
	}
	decoded, free := make(chan chunk, flight), make(chan []byte, flight)
	for range flight {
		free <- make([]byte, chunkSize)
	}
	group.Go(ahead.read)
	group.Go(ahead.sum)
	group.Go(func() error {
		defer close(decoded)
		return m.decode(ctx, ahead, stages{out: decoded, free: free, disk: w.dev.Size(), onTables: w.opts.OnTables})
	})
	group.Go(func() error {
		for c := range decoded {
			if ctx.Err() != nil { // do not write what is already decoded
				return context.Cause(ctx)
			}
			if err := w.write(ctx, c); err != nil {
				return err
			}
			if c.data != nil {
				free <- c.data[:cap(c.data)]
			}
		}
		return nil
	})
	return group.Wait()
}

// decode decodes the source into chunks, reads it to its end, and verifies its checksum.
func (m *Image) decode(ctx context.Context, source io.Reader, to stages) error {
	decodeErr := m.decodeChunks(ctx, source, to)
	if errors.Is(decodeErr, errStopped) || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// A decoder may stop before the end of the source. If it fails, the file may be another
	// one than the ordered: the checksum shows that.
	if _, err := io.Copy(io.Discard, source); err != nil {
		return fmt.Errorf("read the image: %w", err)
	}
	if err := checkSum(m.hash, m.checksum, m.source.Offset()); err != nil {
		return err
	}
	return decodeErr
}

var errStopped = errors.New("stopped")

func (m *Image) decodeChunks(ctx context.Context, source io.Reader, to stages) error {
	dec, err := m.decoder(source)
	if err != nil {
		return err
	}
	defer dec.Close()
	if m.disk == Qcow2 {
		return m.decodeClusters(ctx, dec, to)
	}
	var off int64
	for {
		buf, err := to.buffer(ctx)
		if err != nil {
			return err
		}
		n, err := fill(dec, buf)
		if off == 0 {
			if err := checkNotQcow2(buf[:n]); err != nil {
				return err
			}
		}
		if n > 0 {
			if err := to.send(ctx, chunk{off: off, data: buf[:n]}); err != nil {
				return err
			}
			off += int64(n)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: after %d bytes: %w", ErrFormat, off, err)
		}
	}
}

// fill reads until the buffer is full or the reader ends. Unlike io.ReadFull it returns
// errors unchanged, so that a truncated source does not look like the end of the image.
func fill(r io.Reader, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		got, err := r.Read(buf[n:])
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
