// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qcow2_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/qcow2"
)

var write = flag.String("write", "", "write the raw content of the images to this file (see testdata/make.sh)")

// contentSize is not a multiple of the cluster size.
const contentSize = 5<<20 + 1536

// content is the content of the images in testdata: text in some places of several
// second-level tables of 4 KiB and of the last cluster.
func content() []byte {
	b := make([]byte, contentSize)
	for _, r := range []qcow2.Range{{0, 9000}, {32 << 10, 12 << 10}, {1 << 20, 4096}, {2560 << 10, 20 << 10}, {contentSize - 700, 700}} {
		for i := range r.Len {
			b[r.Off+i] = byte('a' + (r.Off/512+i*i/7)%23)
		}
	}
	return b
}

// snapshotContent is the content of snapshot.qcow2, which make.sh has overwritten in part.
func snapshotContent() []byte {
	b := content()
	copy(b[8<<10:], bytes.Repeat([]byte{0x11}, 4096))
	copy(b[2560<<10:], bytes.Repeat([]byte{0x22}, 4096))
	copy(b[2560<<10:], bytes.Repeat([]byte{0xfe}, 512))
	clear(b[36<<10 : 40<<10])
	return b
}

func TestContent(t *testing.T) {
	if *write == "" {
		t.Skip("only with -write")
	}
	if err := os.WriteFile(*write, content(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// assemble reads an image onto a disk full of old bytes. It fails if two pieces overlap or a
// place is missing.
func assemble(file io.Reader, tables io.ReaderAt) ([]byte, error) {
	s, err := qcow2.NewStream(file, tables)
	if err != nil {
		return nil, err
	}
	size := s.Header().Size
	if size > 6<<20 {
		return nil, errors.New("too large for a test")
	}
	decoder, err := qcow2.NewDecoder(s.Header())
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	disk, covered := bytes.Repeat([]byte{0xa5}, int(size)), make([]byte, size)
	cover := func(off, n int64) error {
		if off < 0 || n <= 0 || off+n > size {
			return fmt.Errorf("%d bytes at %d of a disk of %d", n, off, size)
		}
		if bytes.IndexByte(covered[off:off+n], 1) >= 0 {
			return fmt.Errorf("two pieces at %d", off)
		}
		for i := range covered[off : off+n] {
			covered[off+int64(i)] = 1
		}
		return nil
	}
	room := make([]byte, 1<<20) // large enough for some pieces
	for {
		p, err := s.Next(room)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := cover(p.Off, p.Len); err != nil {
			return nil, err
		}
		if p.Compressed {
			if err := decoder.Decode(disk[p.Off:p.Off+p.Len], p); err != nil {
				return nil, err
			}
			continue
		}
		copy(disk[p.Off:p.Off+p.Len], p.Data)
	}
	for hole := range s.Holes() {
		if err := cover(hole.Off, hole.Len); err != nil {
			return nil, err
		}
		clear(disk[hole.Off : hole.Off+hole.Len])
	}
	if n := bytes.Count(covered, []byte{0}); n > 0 {
		return nil, fmt.Errorf("%d bytes of the disk come from nowhere", n)
	}
	return disk, nil
}

func TestStream(t *testing.T) {
	for _, c := range []struct {
		name   string
		want   []byte
		onPass error
	}{
		{name: "version2", want: content()},
		{name: "plain", want: content()},
		{name: "deflate", want: content()},
		{name: "deflate-small", want: content()},
		{name: "zstd", want: content()},
		{name: "tiny", want: content()[:10240]},
		{name: "tiny-deflate", want: content()[:10240]},
		{name: "tiny-zstd", want: content()[:10240]},
		{name: "snapshot", want: snapshotContent(), onPass: qcow2.ErrOrder},
	} {
		file := load(t, c.name+".qcow2")
		t.Run(c.name+" tables first", func(t *testing.T) {
			got, err := assemble(bytes.NewReader(file), bytes.NewReader(file))
			if err != nil || !bytes.Equal(got, c.want) {
				t.Errorf("error %v, content as wanted: %t", err, bytes.Equal(got, c.want))
			}
		})
		t.Run(c.name+" in one pass", func(t *testing.T) {
			got, err := assemble(bytes.NewReader(file), nil)
			if !errors.Is(err, c.onPass) || err == nil && !bytes.Equal(got, c.want) {
				t.Errorf("error %v, want %v; content as wanted: %t", err, c.onPass, bytes.Equal(got, c.want))
			}
		})
	}
}

// put returns a copy with a big-endian number of 1, 4 or 8 bytes.
func put(b []byte, off int, value any) []byte {
	b = bytes.Clone(b)
	switch v := value.(type) {
	case uint8:
		b[off] = v
	case uint32:
		binary.BigEndian.PutUint32(b[off:], v)
	case uint64:
		binary.BigEndian.PutUint64(b[off:], v)
	}
	return b
}

func TestRefused(t *testing.T) {
	good := load(t, "plain.qcow2")
	l1 := int(binary.BigEndian.Uint64(good[40:]))
	l2 := int(binary.BigEndian.Uint64(good[l1:]) & 0x00fffffffffffe00)
	for _, c := range []struct {
		name string
		file []byte
		err  error
		says string
	}{
		{"empty", nil, qcow2.ErrFormat, "header"},
		{"another format", bytes.Repeat([]byte{1}, 4096), qcow2.ErrFormat, "header"},
		{"truncated header", good[:80], qcow2.ErrFormat, "truncated"},
		{"version 1", put(good, 4, uint32(1)), qcow2.ErrUnsupported, "version 1"},
		{"backing file", put(good, 8, uint64(512)), qcow2.ErrUnsupported, "backing file"},
		{"encrypted", put(good, 32, uint32(2)), qcow2.ErrUnsupported, "encrypted"},
		{"dirty", put(good, 72, uint64(1)), qcow2.ErrUnsupported, "qemu-img check"},
		{"corrupt", put(good, 72, uint64(2)), qcow2.ErrUnsupported, "corrupt"},
		{"external data", put(good, 72, uint64(4)), qcow2.ErrUnsupported, "another file"},
		{"subclusters", put(good, 72, uint64(16)), qcow2.ErrUnsupported, "extended_l2=off"},
		{"unknown feature", put(good, 72, uint64(1<<40)), qcow2.ErrUnsupported, "unknown features"},
		{"unknown compression", put(put(good, 72, uint64(8)), 104, uint8(2)), qcow2.ErrUnsupported, "zstd"},
		{"compression contradicts features", put(good, 104, uint8(1)), qcow2.ErrFormat, "features"},
		{"tiny clusters", put(good, 20, uint32(8)), qcow2.ErrFormat, "2^8"},
		{"huge clusters", put(good, 20, uint32(22)), qcow2.ErrFormat, "2^22"},
		{"no size", put(good, 24, uint64(0)), qcow2.ErrFormat, "0 bytes"},
		{"negative size", put(good, 24, uint64(1<<63)), qcow2.ErrFormat, "bytes"},
		{"size beyond the tables", put(good, 24, uint64(1<<33)), qcow2.ErrFormat, "first table"},
		{"first table at 0", put(good, 40, uint64(0)), qcow2.ErrFormat, "first table"},
		{"unaligned first table", put(good, 40, uint64(l1+512)), qcow2.ErrFormat, "first table"},
		{"first table behind the end", put(good, 40, uint64(1<<40)), qcow2.ErrFormat, "truncated"},
		{"reserved bits in the first table", put(good, l1, uint64(l2)|1), qcow2.ErrFormat, "entry 0"},
		{"reserved bits in a second table", put(good, l2, uint64(l2)|1<<57), qcow2.ErrFormat, "byte 0"},
		{"second table behind the end", put(good, l1, uint64(1<<40)), qcow2.ErrFormat, "truncated"},
		{"cluster behind the end", put(good, l2, uint64(1<<40)), qcow2.ErrFormat, "truncated"},
		{"cluster used twice", put(good, l2, binary.BigEndian.Uint64(good[l2+8:])), qcow2.ErrFormat, "twice"},
		{"compressed and copied", put(good, l2, uint64(3<<62|4096)), qcow2.ErrFormat, "byte 0"},
	} {
		for how, tables := range map[string]io.ReaderAt{"tables first": bytes.NewReader(c.file), "one pass": nil} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				_, err := assemble(bytes.NewReader(c.file), tables)
				if !errors.Is(err, c.err) || !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("error %v, want %v with %q", err, c.err, c.says)
				}
			})
		}
	}
}

// An image with a table for every few clusters would need a request for each.
func TestTooManyTables(t *testing.T) {
	file := load(t, "plain.qcow2")
	const bits, entries = 9, 64<<10 + 1
	big := put(put(file, 20, uint32(bits)), 24, uint64(entries*64<<bits))
	big = put(put(big, 36, uint32(entries)), 40, uint64(512))
	big = append(big[:512], make([]byte, entries*8)...)
	for i := range entries {
		binary.BigEndian.PutUint64(big[512+i*8:], uint64(1<<40+i<<bits))
	}
	_, err := qcow2.NewStream(bytes.NewReader(big), bytes.NewReader(big))
	if !errors.Is(err, qcow2.ErrUnsupported) || !strings.Contains(err.Error(), "cluster_size=64k") {
		t.Errorf("error %v", err)
	}
}

// The iteration over holes can stop anywhere.
func TestHolesCanStop(t *testing.T) {
	file := load(t, "plain.qcow2")
	s, err := qcow2.NewStream(bytes.NewReader(file), bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Collect(s.Holes())
	for hole := range s.Holes() {
		if hole != all[0] || len(all) < 2 {
			t.Errorf("%+v first, of %+v", hole, all)
		}
		break
	}
}

func TestTableChangedDuringTheDownload(t *testing.T) {
	file := load(t, "plain.qcow2")
	l1 := int(binary.BigEndian.Uint64(file[40:]))
	other := put(file, l1+8, uint64(0))
	if _, err := assemble(bytes.NewReader(file), bytes.NewReader(other)); !errors.Is(err, qcow2.ErrFormat) || !strings.Contains(err.Error(), "changed") {
		t.Errorf("error %v", err)
	}
}

func TestHeader(t *testing.T) {
	got, err := qcow2.ParseHeader(load(t, "zstd.qcow2"))
	want := qcow2.Header{Version: 3, ClusterBits: 14, Size: contentSize, L1Offset: 49152, L1Entries: 1, Compression: qcow2.Zstd}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

// cutOff fails like a lost connection.
type cutOff struct{ io.Reader }

func (c cutOff) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func TestInterruptedSourceIsNotAnEnd(t *testing.T) {
	file := load(t, "plain.qcow2")
	for _, n := range []int{50, 5000, 16 << 10, len(file) - 4096} {
		if _, err := assemble(cutOff{bytes.NewReader(file[:n])}, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut off after %d: %v", n, err)
		}
	}
}

func FuzzStream(f *testing.F) {
	for _, name := range []string{"tiny", "tiny-deflate", "tiny-zstd"} {
		f.Add(load(f, name+".qcow2"))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		first, errFirst := assemble(bytes.NewReader(file), bytes.NewReader(file))
		pass, errPass := assemble(bytes.NewReader(file), nil)
		for _, err := range []error{errFirst, errPass} {
			if err != nil && (strings.Contains(err.Error(), "pieces") || strings.Contains(err.Error(), "nowhere")) {
				t.Error(err)
			}
		}
		if errFirst == nil && errPass == nil && !bytes.Equal(first, pass) {
			t.Error("the two ways give different disks")
		}
	})
}
