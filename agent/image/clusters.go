// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/agent/qcow2"
)

// stages connects decoding and writing.
type stages struct {
	out  chan<- chunk
	free <-chan []byte
	disk int64
	// onTables gets the number of bytes of tables read in advance.
	onTables func(int64)
}

// buffer waits for a free buffer of chunkSize.
func (s stages) buffer(ctx context.Context) ([]byte, error) {
	select {
	case buf := <-s.free:
		return buf[:cap(buf)], nil
	case <-ctx.Done():
		return nil, errStopped
	}
}

func (s stages) send(ctx context.Context, c chunk) error {
	select {
	case s.out <- c:
		return nil
	case <-ctx.Done():
		return errStopped
	}
}

// batch is a run of compressed clusters that are contiguous on the disk.
type batch struct {
	off    int64
	size   int64
	pieces []qcow2.Piece
}

// maxWorkers bounds the parallel decompression; more exceed the speed of one disk.
const maxWorkers = 8

func workers() int { return min(maxWorkers, runtime.GOMAXPROCS(0)) }

// decodeClusters sends the clusters of a qcow2 image to the writer, in any order, and the
// ranges without clusters.
func (m *Image) decodeClusters(ctx context.Context, source io.Reader, to stages) error {
	stream, err := m.openStream(source, to.onTables)
	if err != nil {
		return asFormat(err)
	}
	if size := stream.Header().Size; size > to.disk {
		return fmt.Errorf("%w: the image has %d bytes, the disk has %d", ErrTooLarge, size, to.disk)
	}
	next, stop := iter.Pull(stream.Holes())
	defer stop()
	holes := &holes{stream: stream, next: next}
	group, inner := errgroup.WithContext(ctx)
	batches := make(chan batch)
	for range workers() {
		group.Go(func() error { return decompress(inner, stream.Header(), batches, to) })
	}
	group.Go(func() error {
		defer close(batches)
		return distribute(inner, stream, batches, to, holes)
	})
	if err := group.Wait(); err != nil {
		return asFormat(err)
	}
	// The rest of the file comes before the holes, since its server would not wait for them.
	if _, err := io.Copy(io.Discard, source); err != nil {
		return asFormat(err)
	}
	return holes.sendRest(ctx, to)
}

// smallHole is the size of a hole that is zeroed while the source is read. Zeroing it is
// quick enough that the image server keeps the connection.
const smallHole = 16 << 20

// holes sends the ranges of a stream without clusters: small ones interleaved with the
// clusters, and the others at the end of the source.
type holes struct {
	stream *qcow2.Stream
	next   func() (qcow2.Range, bool)
	// reached is the end of the last hole considered: the small ones before it are sent.
	reached int64
}

// sendSmall sends the next small hole if the stream knows all holes in advance.
func (h *holes) sendSmall(ctx context.Context, to stages) error {
	for h.stream.Ahead() {
		hole, found := h.next()
		if !found {
			return nil
		}
		h.reached = hole.Off + hole.Len
		if hole.Len <= smallHole {
			return to.send(ctx, chunk{off: hole.Off, hole: hole.Len})
		}
	}
	return nil
}

func (h *holes) sendRest(ctx context.Context, to stages) error {
	for hole := range h.stream.Holes() {
		if hole.Off < h.reached && hole.Len <= smallHole {
			continue
		}
		if err := to.send(ctx, chunk{off: hole.Off, hole: hole.Len}); err != nil {
			return err
		}
	}
	return nil
}

// openStream opens the stream. If the file is not compressed as a whole and the server
// supports ranges, it reads the tables in advance.
func (m *Image) openStream(source io.Reader, onTables func(int64)) (*qcow2.Stream, error) {
	if m.compression != "none" {
		return qcow2.NewStream(source, nil)
	}
	_, err := m.parts.ReadAt(make([]byte, len(qcow2.Magic)), 0) // a trial
	if errors.Is(err, errNoRanges) {
		return qcow2.NewStream(source, nil)
	}
	if err != nil {
		return nil, err
	}
	return qcow2.NewStream(source, &countingReaderAt{ReaderAt: m.parts, onRead: onTables})
}

// countingReaderAt calls onRead with the total number of bytes read.
type countingReaderAt struct {
	io.ReaderAt
	onRead func(int64)
	sum    int64
}

func (c *countingReaderAt) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.sum += int64(n)
	c.onRead(c.sum)
	return n, err
}

// distribute sends uncompressed pieces to the writer and compressed ones to the workers.
func distribute(ctx context.Context, stream *qcow2.Stream, batches chan<- batch, to stages, holes *holes) error {
	var open batch
	flush := func() error {
		if len(open.pieces) == 0 {
			return nil
		}
		select {
		case batches <- open:
			open = batch{}
			return holes.sendSmall(ctx, to)
		case <-ctx.Done():
			return errStopped
		}
	}
	var buf []byte
	for {
		if buf == nil {
			var err error
			if buf, err = to.buffer(ctx); err != nil {
				return err
			}
		}
		piece, err := stream.Next(buf)
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		if !piece.Compressed {
			data := buf[:len(piece.Data)]
			if &data[0] != &piece.Data[0] {
				copy(data, piece.Data)
			}
			if err := to.send(ctx, chunk{off: piece.Off, data: data}); err != nil {
				return err
			}
			buf = nil
			if err := holes.sendSmall(ctx, to); err != nil {
				return err
			}
			continue
		}
		if open.off+open.size != piece.Off || open.size+piece.Len > chunkSize {
			if err := flush(); err != nil {
				return err
			}
			open.off = piece.Off
		}
		piece.Data = bytes.Clone(piece.Data) // the stream reuses its buffer
		open.pieces, open.size = append(open.pieces, piece), open.size+piece.Len
	}
}

func decompress(ctx context.Context, header qcow2.Header, batches <-chan batch, to stages) error {
	decoder, err := qcow2.NewDecoder(header)
	if err != nil {
		return err
	}
	defer decoder.Close()
	for b := range batches {
		buf, err := to.buffer(ctx)
		if err != nil {
			return err
		}
		for _, piece := range b.pieces {
			at := piece.Off - b.off
			if err := decoder.Decode(buf[at:at+piece.Len], piece); err != nil {
				return err
			}
		}
		if err := to.send(ctx, chunk{off: b.off, data: buf[:b.size]}); err != nil {
			return err
		}
	}
	return nil
}

// asFormat wraps errors of the qcow2 package in ErrFormat.
func asFormat(err error) error {
	for _, known := range []error{qcow2.ErrFormat, qcow2.ErrOrder, qcow2.ErrUnsupported} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
	}
	return err
}
