// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qcow2

import (
	"bufio"
	"cmp"
	"container/heap"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// MaxPiece bounds an uncompressed Piece, in bytes.
const MaxPiece = 4 << 20

// maxTables bounds the second-level tables that are read in advance, one request each: 32 TiB
// of clusters of 64 KiB. An image with more has clusters of a few hundred bytes.
const maxTables = 64 << 10

// maxRegions bounds the memory for known clusters that the stream has not reached, 32 bytes
// each: 256 GiB of clusters of 64 KiB.
const maxRegions = 4 << 20

type Piece struct {
	// Off and Len are its position on the disk, in bytes.
	Off, Len int64
	// Data is valid until the next call. It is the content, or for a Compressed piece the
	// input of Decoder, followed by data of other clusters.
	Data       []byte
	Compressed bool
}

// Range is a part of the disk, in bytes.
type Range struct{ Off, Len int64 }

// Stream is an image that is read sequentially. It is for one goroutine.
type Stream struct {
	header Header
	// ahead: all tables were read in advance.
	ahead   bool
	file    *window
	regions regions
	// sums are the checksums of tables that were read in advance, by offset.
	sums map[int64][sha256.Size]byte
	// used has a bit for each cluster of the disk with content.
	used []uint64
	// last is the uncompressed piece that was returned last.
	last region
}

// NewStream reads the header from file. tables gives random access to the same file, to read
// the tables in advance; nil: not available. Errors of the readers are returned unchanged.
func NewStream(file io.Reader, tables io.ReaderAt) (*Stream, error) {
	in := bufio.NewReaderSize(file, 64<<10)
	head, err := in.Peek(HeaderSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	header, err := ParseHeader(head)
	if err != nil {
		return nil, err
	}
	s := &Stream{
		ahead: tables != nil, header: header, file: &window{r: in}, sums: map[int64][sha256.Size]byte{},
		used: make([]uint64, (header.clusters()+63)/64),
	}
	first := region{off: header.L1Offset, size: header.L1Entries * 8, kind: firstTable}
	if tables == nil {
		// QEMU keeps filling a cluster with compressed ones after it has appended a new table.
		s.file.back = 2 * header.ClusterSize()
		return s, s.push(first)
	}
	return s, s.readAhead(tables, first)
}

// Ahead reports whether the tables were read in advance, so that Holes is complete.
func (s *Stream) Ahead() bool { return s.ahead }

func (s *Stream) Header() Header { return s.header }

// readAhead reads a table and the tables that it names, and keeps their checksums.
func (s *Stream) readAhead(tables io.ReaderAt, table region) error {
	content := make([]byte, table.size)
	if _, err := tables.ReadAt(content, table.off); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: truncated table at %d", ErrFormat, table.off)
		}
		return err
	}
	if _, twice := s.sums[table.off]; twice {
		return fmt.Errorf("%w: two tables at %d", ErrFormat, table.off)
	}
	s.sums[table.off] = sha256.Sum256(content)
	if err := s.push(table); err != nil {
		return err
	}
	named, err := s.named(table, content)
	if err != nil {
		return err
	}
	if table.kind == secondTable {
		return s.push(named...)
	}
	if len(named) > maxTables {
		return fmt.Errorf("%w: more than %d tables; convert it with qemu-img convert -O qcow2 -o cluster_size=64k", ErrUnsupported, maxTables)
	}
	slices.SortFunc(named, func(a, b region) int { return cmp.Compare(a.off, b.off) })
	for _, next := range named {
		if err := s.readAhead(tables, next); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stream) named(table region, content []byte) ([]region, error) {
	if table.kind == firstTable {
		return s.header.l1Entries(content)
	}
	return s.header.l2Entries(content, table.guest)
}

// push adds regions to read, which the stream must not have passed.
func (s *Stream) push(needed ...region) error {
	for _, r := range needed {
		if r.off < s.file.base {
			return fmt.Errorf("%w: a table behind %d names a cluster there; serve the image without gzip, xz or zstd, or convert it with qemu-img convert -O qcow2", ErrOrder, r.off)
		}
		if r.kind == plainCluster || r.kind == compressedCluster {
			n := r.guest >> s.header.ClusterBits
			s.used[n/64] |= 1 << (n % 64)
		}
		heap.Push(&s.regions, r)
	}
	if len(s.regions) > maxRegions {
		return fmt.Errorf("%w: more than %d clusters; convert it with qemu-img convert -O qcow2 -o cluster_size=2M", ErrUnsupported, maxRegions)
	}
	return nil
}

// Next returns the next piece of the disk in the sequence of the file, and io.EOF after the
// last one. It does not read the rest of the file. If buf is long enough (MaxPiece always is),
// an uncompressed piece is read into it.
func (s *Stream) Next(buf []byte) (Piece, error) {
	for len(s.regions) > 0 {
		r := heap.Pop(&s.regions).(region)
		switch r.kind {
		case plainCluster:
			return s.plain(r, buf)
		case compressedCluster:
			data, err := s.file.read(r.off, r.size)
			size := min(s.header.ClusterSize(), s.header.Size-r.guest)
			return Piece{Off: r.guest, Len: size, Data: data, Compressed: true}, err
		case firstTable, secondTable:
			if err := s.table(r); err != nil {
				return Piece{}, err
			}
		}
	}
	return Piece{}, io.EOF
}

// plain returns r together with the clusters that follow it both in the file and on the disk.
func (s *Stream) plain(r region, buf []byte) (Piece, error) {
	if r.off < s.last.off+s.last.size && r.off+r.size > s.last.off {
		return Piece{}, fmt.Errorf("%w: the cluster at %d is used twice", ErrFormat, r.off)
	}
	for len(s.regions) > 0 && r.size < MaxPiece {
		next := s.regions[0]
		if next.kind != plainCluster || next.off != r.off+r.size || next.guest != r.guest+r.size || r.size+next.size > MaxPiece {
			break
		}
		heap.Pop(&s.regions)
		r.size += next.size
	}
	s.last = r
	data, err := s.file.readInto(buf, r.off, r.size)
	if err != nil {
		return Piece{}, err
	}
	if missing := int(r.size) - len(data); missing > 0 { // the file may end within a cluster
		data = append(data, make([]byte, missing)...)
	}
	return Piece{Off: r.guest, Len: r.size, Data: data}, nil
}

// table evaluates a table in the stream, or compares it with the one read in advance.
func (s *Stream) table(r region) error {
	content, err := s.file.read(r.off, r.size)
	if err != nil {
		return err
	}
	if int64(len(content)) < r.size {
		return fmt.Errorf("%w: truncated table at %d", ErrFormat, r.off)
	}
	if sum, known := s.sums[r.off]; known {
		if sum != sha256.Sum256(content) {
			return fmt.Errorf("%w: the table at %d changed during the download", ErrFormat, r.off)
		}
		return nil
	}
	named, err := s.named(r, content)
	if err != nil {
		return err
	}
	return s.push(named...)
}

// Holes are the ranges that read as zero, in sequence. They are complete after Next has
// returned io.EOF, or at once if Ahead. It is an iterator, since half the clusters may be holes.
func (s *Stream) Holes() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		var open Range
		size := s.header.ClusterSize()
		for n := range s.header.clusters() {
			if s.used[n/64]&(1<<(n%64)) != 0 {
				continue
			}
			r := Range{n * size, min(size, s.header.Size-n*size)}
			if open.Off+open.Len == r.Off { // also true for a first hole at 0
				open.Len += r.Len
				continue
			}
			if open.Len > 0 && !yield(open) {
				return
			}
			open = r
		}
		if open.Len > 0 {
			yield(open)
		}
	}
}

// regions is a heap by position in the file.
type regions []region

func (r regions) Len() int           { return len(r) }
func (r regions) Less(i, j int) bool { return r[i].off < r[j].off }
func (r regions) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

func (r *regions) Push(x any) { *r = append(*r, x.(region)) }

func (r *regions) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r = (*r)[:last]
	return x
}

// window reads ranges of a stream that may overlap and start at most back before the last one.
type window struct {
	r    io.Reader
	back int64
	// buf is the data from base on; data before base is gone.
	buf  []byte
	base int64
}

// slack is the amount of obsolete data that is kept to save copying.
const slack = 256 << 10

// read returns n bytes at off, or fewer at the end of the stream, valid until the next call. A
// range that starts before base or after the end is an error.
func (w *window) read(off, n int64) ([]byte, error) {
	if off < w.base {
		return nil, fmt.Errorf("%w: the data at %d is used twice", ErrFormat, off)
	}
	if err := w.drop(off - w.back); err != nil {
		return nil, err
	}
	from, need := off-w.base, off-w.base+n
	if have := int64(len(w.buf)); have < need {
		w.buf = slices.Grow(w.buf, int(need-have))[:need]
		for have < need {
			got, err := w.r.Read(w.buf[have:])
			have += int64(got)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil { // an interrupted source is not at its end
				w.buf = w.buf[:have]
				return nil, err
			}
		}
		w.buf = w.buf[:have]
	}
	if int64(len(w.buf)) <= from {
		return nil, fmt.Errorf("%w: truncated before %d", ErrFormat, off)
	}
	end := min(need, int64(len(w.buf)))
	return w.buf[from:end:end], nil
}

// readInto is read into buf, without another copy, if buf is long enough and no data must be
// kept. The data cannot be read again.
func (w *window) readInto(buf []byte, off, n int64) ([]byte, error) {
	if w.back > 0 || int64(len(buf)) < n || off < w.base {
		return w.read(off, n)
	}
	if err := w.drop(off); err != nil {
		return nil, err
	}
	have := 0
	if from := off - w.base; from < int64(len(w.buf)) {
		have = copy(buf[:n], w.buf[from:])
	}
	if rest := len(w.buf) - int(off-w.base) - have; rest > 0 {
		w.buf = w.buf[:copy(w.buf, w.buf[len(w.buf)-rest:])]
	} else {
		w.buf = w.buf[:0]
	}
	for int64(have) < n {
		got, err := w.r.Read(buf[have:n])
		have += got
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	w.base = off + int64(have)
	if have == 0 {
		return nil, fmt.Errorf("%w: truncated before %d", ErrFormat, off)
	}
	return buf[:have], nil
}

// drop discards the data before off.
func (w *window) drop(off int64) error {
	surplus := off - w.base
	switch have := int64(len(w.buf)); {
	case surplus >= have && surplus > 0:
		w.buf = w.buf[:0]
		if _, err := io.CopyN(io.Discard, w.r, surplus-have); errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: truncated before %d", ErrFormat, off)
		} else if err != nil {
			return err
		}
	case surplus > slack:
		w.buf = w.buf[:copy(w.buf, w.buf[surplus:])]
	default:
		return nil
	}
	w.base = off
	return nil
}
