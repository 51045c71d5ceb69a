// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/agent/qcow2"
)

// stages are the channels between decoding and writing.
type stages struct {
	out  chan<- chunk
	free <-chan []byte
	// disk is the size of the disk in bytes.
	disk int64
	// tables is told how many bytes of tables were read beforehand.
	tables func(int64)
}

// buffer waits for one of chunkSize.
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

// batch are compressed clusters that lie behind each other on the disk.
type batch struct {
	off    int64
	size   int64
	pieces []qcow2.Piece
}

// maxWorkers decompress clusters side by side; one disk does not take more.
const maxWorkers = 8

func workers() int { return min(maxWorkers, runtime.GOMAXPROCS(0)) }

// decodeClusters sends the clusters of a qcow2 image to the writer, in whatever
// order they come, and the ranges that have none.
func (m *Image) decodeClusters(ctx context.Context, source io.Reader, to stages) error {
	stream, err := m.clusters(source, to.tables)
	if err != nil {
		return asFormat(err)
	}
	if size := stream.Header().Size; size > to.disk {
		return fmt.Errorf("%w: %d bytes of image, %d of disk", ErrTooLarge, size, to.disk)
	}
	holes := holesOf(stream)
	defer holes.stop()
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
	// What the file has behind its last cluster is read first: its server would not wait
	// for the holes.
	if _, err := io.Copy(io.Discard, source); err != nil {
		return asFormat(err)
	}
	return holes.rest(ctx, to)
}

// smallHole is zeroed while the source is read: that takes no disk so long that the
// source's server would hang up.
const smallHole = 16 << 20

// holes sends the ranges of a stream that have no cluster: small ones now and then, so
// that the disk has done them when the source is at its end, and the others then.
type holes struct {
	stream *qcow2.Stream
	next   func() (qcow2.Range, bool)
	stop   func()
	// reached: the small ones before it are sent.
	reached int64
}

func holesOf(stream *qcow2.Stream) *holes {
	next, stop := iter.Pull(stream.Holes())
	return &holes{stream: stream, next: next, stop: stop}
}

// one sends the next small one, if all are known.
func (h *holes) one(ctx context.Context, to stages) error {
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

func (h *holes) rest(ctx context.Context, to stages) error {
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

// clusters opens the stream. The tables of an image that is not compressed as a
// whole are read beforehand, where the server gives ranges.
func (m *Image) clusters(source io.Reader, tell func(int64)) (*qcow2.Stream, error) {
	if m.compression != "none" {
		return qcow2.NewStream(source, nil)
	}
	err := m.probeRanges()
	if errors.Is(err, errNoRanges) {
		return qcow2.NewStream(source, nil)
	}
	if err != nil {
		return nil, err
	}
	return qcow2.NewStream(source, &counted{ReaderAt: m.parts, tell: tell})
}

// counted tells how much was read.
type counted struct {
	io.ReaderAt
	tell func(int64)
	sum  int64
}

// ReadAt implements io.ReaderAt.
func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, off)
	c.sum += int64(n)
	c.tell(c.sum)
	return n, err
}

// probeRanges asks for four bytes that it knows.
func (m *Image) probeRanges() error {
	_, err := m.parts.ReadAt(make([]byte, len(qcow2.Magic)), 0)
	return err
}

// distribute gives plain pieces to the writer, and compressed ones to the workers.
func distribute(ctx context.Context, stream *qcow2.Stream, batches chan<- batch, to stages, holes *holes) error {
	var open batch
	flush := func() error {
		if len(open.pieces) == 0 {
			return nil
		}
		select {
		case batches <- open:
			open = batch{}
			return holes.one(ctx, to)
		case <-ctx.Done():
			return errStopped
		}
	}
	var room []byte
	for {
		if room == nil {
			var err error
			if room, err = to.buffer(ctx); err != nil {
				return err
			}
		}
		piece, err := stream.Next(room)
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		if !piece.Compressed {
			data := room[:len(piece.Data)]
			if &data[0] != &piece.Data[0] {
				copy(data, piece.Data)
			}
			if err := to.send(ctx, chunk{off: piece.Off, data: data}); err != nil {
				return err
			}
			room = nil
			if err := holes.one(ctx, to); err != nil {
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
		piece.Data = append([]byte(nil), piece.Data...) // the stream's own is overwritten
		open.pieces, open.size = append(open.pieces, piece), open.size+piece.Len
	}
}

// decompress is one worker.
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

// asFormat gives an error of the qcow2 package the kind that callers know.
func asFormat(err error) error {
	for _, known := range []error{qcow2.ErrFormat, qcow2.ErrOrder, qcow2.ErrUnsupported} {
		if errors.Is(err, known) {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
	}
	return err
}
