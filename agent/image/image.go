// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
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

// What is wrong with an image.
var (
	// ErrChecksum: the source is not what the order names.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrFormat: the source is what the order names, and cannot be decoded.
	ErrFormat = errors.New("image cannot be decoded")
)

// maxWindow bounds the memory that a zstd image may ask for: "zstd --long" uses
// 128 MiB.
const maxWindow = 128 << 20

// Format says what the source is.
type Format struct {
	// Checksum of the source as it is stored: "sha256:<hex>" or "sha512:<hex>".
	Checksum string
	// Compression is "none", "gzip", "xz", "zstd", or empty for what the first bytes say.
	Compression string
	// Disk is the form of the disk image inside: Raw or Qcow2; empty: Raw.
	Disk string
}

// The forms of a disk image.
const (
	Raw   = "raw"
	Qcow2 = "qcow2"
)

// Image is a source whose format is known, ready to be written once.
type Image struct {
	source *Source
	// parts of the source, beside the stream.
	parts ranges
	// stop ends the source's waiting and reading.
	stop context.CancelFunc
	// buffered is the source, from its first byte.
	buffered    *bufio.Reader
	compression string
	disk        string
	checksum    []byte
	hash        hash.Hash
	rawSize     int64
}

// Open connects to the source and reads as much of it as is needed to know its
// format. No disk is involved yet, so whatever is wrong here costs nothing.
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

// RawSize is the size of the decoded image in bytes, or -1 where only decoding
// tells.
func (m *Image) RawSize() int64 { return m.rawSize }

// Compression is the one stated or found: "none", "gzip", "xz" or "zstd".
func (m *Image) Compression() string { return m.compression }

// Disk is the form of the disk image: Raw or Qcow2.
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
		m.compression = sniff(head)
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
		return misnamed(head)
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

// headBytes are enough for the headers of all formats: qcow2's is the longest, and
// xz's are 12 bytes and what 6 bytes more tell (see checkXZ).
const headBytes = max(zstd.HeaderMaxSize, qcow2.HeaderSize, 64)

// misnamed refuses to write a file of another format as it is: no server boots from
// that, and nothing would say why.
func misnamed(head []byte) error {
	if bytes.HasPrefix(head, []byte(qcow2.Magic)) {
		return fmt.Errorf("%w: it is a qcow2 image and was said to be raw; set the image's format to qcow2", ErrFormat)
	}
	return nil
}

// sniff knows a format by its first bytes (RFC 8878 sections 3.1.1 and 3.1.2, RFC 1952
// section 2.3.1, The .xz File Format 1.2.0 section 2.1.1.1); anything else is not
// compressed.
func sniff(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	case len(head) > 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:4], []byte{0x2a, 0x4d, 0x18}):
		return "zstd" // a frame to skip: pzstd begins with one
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b, 0x08}):
		return "gzip"
	case bytes.HasPrefix(head, []byte(xzMagic)):
		return "xz"
	}
	return "none"
}

// decoder decompresses what r reads.
func (m *Image) decoder(r io.Reader) (io.ReadCloser, error) {
	switch m.compression {
	case "zstd":
		d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return d.IOReadCloser(), nil
	case "gzip":
		d, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return d, nil
	case "xz":
		d, err := xz.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return io.NopCloser(d), nil
	}
	return io.NopCloser(r), nil
}

// verify compares the checksum of everything hashed with the one ordered.
func (m *Image) verify() error {
	if got := m.hash.Sum(nil); !bytes.Equal(got, m.checksum) {
		return fmt.Errorf("%w: the source of %d bytes has %x, the order says %x",
			ErrChecksum, m.source.Offset(), got, m.checksum)
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
		return nil, nil, fmt.Errorf("%w: %.20q… is not a %s in hexadecimal", ErrChecksum, s, algorithm)
	}
	return sum, h, nil
}
