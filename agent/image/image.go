// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/ingot-metal/ingot/agent/qcow2"
)

var (
	// ErrChecksum reports that the source does not have the ordered checksum.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrFormat reports that the source has the ordered checksum but cannot be decoded.
	ErrFormat = errors.New("image cannot be decoded")
)

// maxWindow bounds the memory that a zstd image may request. "zstd --long" uses 128 MiB.
const maxWindow = 128 << 20

// Format describes the source.
type Format struct {
	// Checksum of the source as it is stored: "sha256:<hex>" or "sha512:<hex>".
	Checksum string
	// Compression is "none", "gzip", "xz" or "zstd". Empty: detected by the first bytes.
	Compression string
	// Disk is the format of the disk image inside: Raw or Qcow2. Empty: Raw.
	Disk string
}

// Formats of a disk image.
const (
	Raw   = "raw"
	Qcow2 = "qcow2"
)

// Image is a source whose format is known, ready to be written once.
type Image struct {
	source *Source
	// parts reads ranges of the source independently of the stream.
	parts ranges
	// stop ends waiting and reading of the source.
	stop context.CancelFunc
	// buffered is the source from its first byte.
	buffered    *bufio.Reader
	compression string
	disk        string
	checksum    []byte
	hash        hash.Hash
	rawSize     int64
}

// Open connects to the source and reads as much as necessary to determine its format. It
// involves no disk yet, so that errors leave the disk unchanged.
func Open(ctx context.Context, req Request, format Format) (*Image, error) {
	sum, h, err := parseChecksum(format.Checksum)
	if err != nil {
		return nil, err
	}
	if format.Disk == "" {
		format.Disk = Raw
	}
	if format.Disk != Raw && format.Disk != Qcow2 {
		return nil, fmt.Errorf("%w: unknown disk format %.20q", ErrFormat, format.Disk)
	}
	ctx, stop := context.WithCancel(ctx)
	img := &Image{source: OpenSource(ctx, req), stop: stop, disk: format.Disk, checksum: sum, hash: h, rawSize: -1}
	if err := img.inspect(format.Compression); err != nil {
		return nil, errors.Join(err, img.Close())
	}
	return img, nil
}

// Close ends the connection to the source.
func (m *Image) Close() error {
	m.stop()
	return m.source.Close()
}

// RawSize is the size of the decoded image in bytes, or -1 if unknown before decoding.
func (m *Image) RawSize() int64 { return m.rawSize }

// Compression is the stated or detected compression: "none", "gzip", "xz" or "zstd".
func (m *Image) Compression() string { return m.compression }

func (m *Image) Disk() string { return m.disk }

func (m *Image) inspect(stated string) error {
	size, err := m.source.Size()
	if err != nil {
		return err
	}
	m.parts = ranges{ctx: m.source.ctx, req: m.source.req, size: size}
	m.buffered = bufio.NewReaderSize(m.source, headBytes)
	head, err := m.buffered.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the image: %w", err)
	}
	switch m.compression = stated; stated {
	case "":
		m.compression = detectCompression(head)
	case "none", "gzip", "xz", "zstd":
	default:
		return fmt.Errorf("%w: unknown compression %.20q", ErrFormat, stated)
	}
	switch {
	case m.compression == "none" && m.disk == Qcow2:
		header, err := qcow2.ParseHeader(head)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		m.rawSize = header.Size
	case m.compression == "none":
		m.rawSize = size
		return checkNotQcow2(head)
	case m.compression == "xz":
		return checkXZ(head)
	case m.compression == "zstd" && m.disk == Raw:
		var header zstd.Header
		if err := header.Decode(head); err == nil && header.HasFCS {
			m.rawSize = int64(header.FrameContentSize)
		}
	}
	return nil
}

// headBytes suffice for the headers of all formats. That of qcow2 is the longest; xz needs
// 12 bytes and the 6 that checkXZ reads.
const headBytes = max(zstd.HeaderMaxSize, qcow2.HeaderSize, 64)

// checkNotQcow2 refuses a qcow2 image that is declared as raw: no server would boot from it,
// and no later error would state the cause.
func checkNotQcow2(head []byte) error {
	if bytes.HasPrefix(head, []byte(qcow2.Magic)) {
		return fmt.Errorf("%w: the image is qcow2, but its format is raw; set the image's format to qcow2", ErrFormat)
	}
	return nil
}

// detectCompression detects the compression by magic bytes (RFC 8878 sections 3.1.1 and
// 3.1.2, RFC 1952 section 2.3.1, The .xz File Format 1.2.0 section 2.1.1.1). The default is
// "none".
func detectCompression(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	case len(head) > 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		return "zstd" // a skippable frame, with which pzstd starts
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b, 0x08}):
		return "gzip"
	case bytes.HasPrefix(head, []byte(xzMagic)):
		return "xz"
	}
	return "none"
}

func (m *Image) decoder(r io.Reader) (dec io.ReadCloser, err error) {
	switch m.compression {
	case "zstd":
		var d *zstd.Decoder
		if d, err = zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow)); err == nil {
			return d.IOReadCloser(), nil
		}
	case "gzip":
		if dec, err = gzip.NewReader(r); err == nil {
			return dec, nil
		}
	case "xz":
		var d *xz.Reader
		if d, err = xz.NewReader(r); err == nil {
			return io.NopCloser(d), nil
		}
	default:
		return io.NopCloser(r), nil
	}
	return nil, fmt.Errorf("%w: %w", ErrFormat, err)
}

// checkSum compares the checksum of a source of n bytes with the ordered one.
func checkSum(h hash.Hash, want []byte, n int64) error {
	if got := h.Sum(nil); !bytes.Equal(got, want) {
		return fmt.Errorf("%w: the source of %d bytes has %x, the order has %x", ErrChecksum, n, got, want)
	}
	return nil
}

// parseChecksum reads "sha256:<hex>" or "sha512:<hex>".
func parseChecksum(s string) ([]byte, hash.Hash, error) {
	algorithm, digits, _ := strings.Cut(s, ":")
	var h hash.Hash
	switch algorithm {
	case "sha256":
		h = sha256.New()
	case "sha512":
		h = sha512.New()
	default:
		return nil, nil, fmt.Errorf("%w: %.20q is not sha256:<hex> or sha512:<hex>", ErrChecksum, s)
	}
	sum, err := hex.DecodeString(digits)
	if err != nil || len(sum) != h.Size() {
		return nil, nil, fmt.Errorf("%w: %.20q… is not a hexadecimal %s", ErrChecksum, s, algorithm)
	}
	return sum, h, nil
}

// xzMagic starts every .xz file (The .xz File Format 1.2.0, section 2.1.1.1).
const xzMagic = "\xfd7zXZ\x00"

// checkXZ bounds the memory that the first block of a .xz file requests, as maxWindow does
// for zstd. The dictionary of its filter may have up to 4 GiB; "xz -9" uses 64 MiB. All
// blocks of one xz run request the same.
func checkXZ(head []byte) error {
	r := bytes.NewReader(head)
	if _, err := r.Seek(12, 0); err != nil { // the stream header, section 2.1.1
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	size, _ := r.ReadByte()
	flags, err := r.ReadByte()
	if err != nil {
		return fmt.Errorf("%w: the file ends in its header", ErrFormat)
	}
	if size == 0 { // an index: an empty stream
		return nil
	}
	if flags&0x3f != 0 {
		return fmt.Errorf("%w: unsupported xz filters besides LZMA2; compress the image with xz and no filter options", ErrFormat)
	}
	for _, present := range []byte{0x40, 0x80} { // sizes of the block, section 3.1.3 and 3.1.4
		if flags&present != 0 {
			if _, err := binary.ReadUvarint(r); err != nil {
				return fmt.Errorf("%w: the first block's header: %w", ErrFormat, err)
			}
		}
	}
	filter := make([]byte, 3) // identifier, size of the properties, dictionary size (5.3.1)
	if n, _ := r.Read(filter); n < len(filter) || filter[0] != 0x21 || filter[1] != 1 || filter[2] > 40 {
		return fmt.Errorf("%w: unsupported xz filter in place of LZMA2; compress the image with xz and no filter options", ErrFormat)
	}
	if bits := uint64(filter[2]); (2|bits&1)<<(bits/2+11) > maxWindow {
		return fmt.Errorf("%w: decompression needs more than %d MiB of memory; compress the image with xz -9 or less", ErrFormat, maxWindow>>20)
	}
	return nil
}
