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

// MaxPiece bounds a Piece that is not compressed, in bytes.
const MaxPiece = 4 << 20

// maxTables bounds the second tables that are read beforehand, one request each: 32 TiB
// of clusters of 64 KiB. An image with more has clusters of a few hundred bytes.
const maxTables = 64 << 10

// maxRegions bounds the memory for clusters that are known and not come yet, 32 bytes
// each: 256 GiB of 64 KiB.
const maxRegions = 4 << 20

// Piece is a part of the disk.
type Piece struct {
	// Off and Len are where it belongs, in bytes of the disk.
	Off, Len int64
	// Data is valid until the next call. It is the content, or, of a Compressed
	// piece, what Decoder makes the content of: then with bytes of others behind it.
	Data       []byte
	Compressed bool
}

// Range is a part of the disk, in bytes.
type Range struct{ Off, Len int64 }

// Stream is an image that is read from its beginning to its end. It is for one
// goroutine.
type Stream struct {
	header Header
	// ahead: all tables are read beforehand.
	ahead   bool
	file    *window
	regions regions
	// held are the sums of tables that were read beforehand, by their offset.
	held map[int64][sha256.Size]byte
	// used has a bit for each cluster of the disk that has content.
	used []uint64
	// last is the plain piece that was given out last.
	last region
}

// NewStream reads the header from file. tables is a second way to the same bytes,
// by which the tables are read beforehand; nil if there is none. Errors of the
// readers are passed on.
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
		ahead: tables != nil, header: header, file: &window{r: in}, held: map[int64][sha256.Size]byte{},
		used: make([]uint64, (header.clusters()+63)/64),
	}
	first := region{off: header.L1Offset, size: header.L1Entries * 8, kind: firstTable}
	if tables == nil {
		// QEMU goes on filling a cluster with compressed ones after it has made a new
		// table behind it.
		s.file.back = 2 * header.ClusterSize()
		return s, s.push(first)
	}
	return s, s.readAhead(tables, first)
}

// Ahead says whether the tables were read beforehand: Holes is complete from the start.
func (s *Stream) Ahead() bool { return s.ahead }

// Header returns what the image says of itself.
func (s *Stream) Header() Header { return s.header }

// readAhead reads a table and those that it names, and remembers what they are.
func (s *Stream) readAhead(tables io.ReaderAt, table region) error {
	content := make([]byte, table.size)
	if _, err := tables.ReadAt(content, table.off); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: a table at %d is cut short", ErrFormat, table.off)
		}
		return err
	}
	if _, twice := s.held[table.off]; twice {
		return fmt.Errorf("%w: two tables at %d", ErrFormat, table.off)
	}
	s.held[table.off] = sha256.Sum256(content)
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
		return fmt.Errorf("%w: it has more than %d tables; write it again with qemu-img convert -O qcow2 -o cluster_size=64k", ErrUnsupported, maxTables)
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

// push notes regions that are needed and can still be read.
func (s *Stream) push(needed ...region) error {
	for _, r := range needed {
		if r.off < s.file.base {
			return fmt.Errorf("%w: what is at %d is named by a table behind it; serve the image without gzip, xz or zstd around it, or write it again with qemu-img convert -O qcow2", ErrOrder, r.off)
		}
		if r.kind == plainCluster || r.kind == compressedCluster {
			n := r.guest >> s.header.ClusterBits
			s.used[n/64] |= 1 << (n % 64)
		}
		heap.Push(&s.regions, r)
	}
	if len(s.regions) > maxRegions {
		return fmt.Errorf("%w: it has more than %d clusters; write it again with qemu-img convert -O qcow2 -o cluster_size=2M", ErrUnsupported, maxRegions)
	}
	return nil
}

// Next returns the next piece of the disk in the order of the file, and io.EOF after
// the last one; what follows in the file is then not read. Where room is long enough
// (MaxPiece always is) the content of a plain piece is read into it.
func (s *Stream) Next(room []byte) (Piece, error) {
	for len(s.regions) > 0 {
		r := heap.Pop(&s.regions).(region)
		switch r.kind {
		case plainCluster:
			return s.plain(r, room)
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

// plain takes the clusters behind r along that follow it in the file and on the disk.
func (s *Stream) plain(r region, room []byte) (Piece, error) {
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
	data, err := s.file.readInto(room, r.off, r.size)
	if err != nil {
		return Piece{}, err
	}
	if missing := int(r.size) - len(data); missing > 0 { // a file may end within a cluster
		data = append(data, make([]byte, missing)...)
	}
	return Piece{Off: r.guest, Len: r.size, Data: data}, nil
}

// table reads one that the stream has come to, or compares it with what was read of
// it beforehand.
func (s *Stream) table(r region) error {
	content, err := s.file.read(r.off, r.size)
	if err != nil {
		return err
	}
	if int64(len(content)) < r.size {
		return fmt.Errorf("%w: a table at %d is cut short", ErrFormat, r.off)
	}
	if sum, held := s.held[r.off]; held {
		if sum != sha256.Sum256(content) {
			return fmt.Errorf("%w: the table at %d has changed while the image was read", ErrFormat, r.off)
		}
		return nil
	}
	named, err := s.named(r, content)
	if err != nil {
		return err
	}
	return s.push(named...)
}

// Holes are what reads as zero on the disk, in order: complete where Ahead says so, else
// after Next has returned io.EOF. There may be as many as half the clusters, so they are made one by one.
func (s *Stream) Holes() iter.Seq[Range] {
	return func(yield func(Range) bool) {
		var open Range
		size := s.header.ClusterSize()
		for n := range s.header.clusters() {
			if s.used[n/64]&(1<<(n%64)) != 0 {
				continue
			}
			r := Range{n * size, min(size, s.header.Size-n*size)}
			if open.Off+open.Len == r.Off { // the first one, of a disk that begins with it, as well
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

// regions is a heap by place in the file.
type regions []region

func (r regions) Len() int           { return len(r) }
func (r regions) Less(i, j int) bool { return r[i].off < r[j].off }
func (r regions) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

// Push implements heap.Interface.
func (r *regions) Push(x any) { *r = append(*r, x.(region)) }

// Pop implements heap.Interface.
func (r *regions) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r = (*r)[:last]
	return x
}

// window reads ranges of a stream that may overlap and whose beginnings go back by no
// more than back.
type window struct {
	r    io.Reader
	back int64
	// buf is what was read last, from base on; nothing before base can be read.
	buf  []byte
	base int64
}

// slack is how much more than needed is kept before the rest is moved up.
const slack = 256 << 10

// read returns n bytes at off, which is not before base, valid until the next call;
// or fewer at the end of the stream. A range that begins behind the end is an error.
func (w *window) read(off, n int64) ([]byte, error) {
	if off < w.base {
		return nil, fmt.Errorf("%w: what is at %d is used twice", ErrFormat, off)
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
			if err != nil { // a source that was cut short is not at its end
				w.buf = w.buf[:have]
				return nil, err
			}
		}
		w.buf = w.buf[:have]
	}
	if int64(len(w.buf)) <= from {
		return nil, fmt.Errorf("%w: it is cut short: it ends before %d", ErrFormat, off)
	}
	end := min(need, int64(len(w.buf)))
	return w.buf[from:end:end], nil
}

// readInto is read into room where that is long enough and nothing is to be kept: the
// bytes are then copied once. What it has read cannot be read again.
func (w *window) readInto(room []byte, off, n int64) ([]byte, error) {
	if w.back > 0 || int64(len(room)) < n || off < w.base {
		return w.read(off, n)
	}
	if err := w.drop(off); err != nil {
		return nil, err
	}
	have := 0
	if from := off - w.base; from < int64(len(w.buf)) {
		have = copy(room[:n], w.buf[from:])
	}
	if rest := len(w.buf) - int(off-w.base) - have; rest > 0 {
		w.buf = w.buf[:copy(w.buf, w.buf[len(w.buf)-rest:])]
	} else {
		w.buf = w.buf[:0]
	}
	for int64(have) < n {
		got, err := w.r.Read(room[have:n])
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
		return nil, fmt.Errorf("%w: it is cut short: it ends before %d", ErrFormat, off)
	}
	return room[:have], nil
}

// drop lets go of what lies before off.
func (w *window) drop(off int64) error {
	surplus := off - w.base
	switch have := int64(len(w.buf)); {
	case surplus >= have && surplus > 0:
		w.buf = w.buf[:0]
		if _, err := io.CopyN(io.Discard, w.r, surplus-have); errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: it is cut short: it ends before %d", ErrFormat, off)
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
