// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qcow2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var (
	// ErrFormat reports that the file is not a qcow2 image, or an inconsistent one.
	ErrFormat = errors.New("not a valid qcow2 image")
	// ErrUnsupported reports an image that must be converted. The message says how.
	ErrUnsupported = errors.New("unsupported qcow2 image")
	// ErrOrder reports a cluster that precedes the table with its position.
	ErrOrder = errors.New("qcow2 image cannot be read in one pass")
)

// Magic is the first bytes of every image.
const Magic = "QFI\xfb"

// HeaderSize is the number of bytes that ParseHeader needs: a version 3 header with the
// compression type.
const HeaderSize = 112

type Compression uint8

// The kinds of compression (header byte 104).
const (
	Deflate Compression = 0
	Zstd    Compression = 1
)

// Header describes the layout of an image.
type Header struct {
	Version uint32
	// ClusterBits is the binary logarithm of the cluster size, 9 to 21.
	ClusterBits uint32
	Size        int64
	// L1Offset is the position of the first table in bytes, L1Entries the number of its 8-byte
	// entries.
	L1Offset, L1Entries int64
	// Compression of clusters that are compressed.
	Compression Compression
}

// ClusterSize is in bytes.
func (h Header) ClusterSize() int64 { return 1 << h.ClusterBits }

// entries is the number of clusters in a second-level table.
func (h Header) entries() int64 { return h.ClusterSize() / 8 }

// clusters is the number of clusters of the disk.
func (h Header) clusters() int64 { return (h.Size + h.ClusterSize() - 1) >> h.ClusterBits }

// Limits of a header: far above real images, and small enough for the memory of any server.
const (
	minClusterBits, maxClusterBits = 9, 21
	// maxClusters of the disk: 16 TiB of 64 KiB. Each needs one bit.
	maxClusters = 1 << 28
	// maxL1 entries, 8 bytes each.
	maxL1 = 4 << 20
)

// Incompatible features (header bytes 72 to 79).
const (
	featureDirty        = 1 << 0
	featureCorrupt      = 1 << 1
	featureExternalData = 1 << 2
	featureCompression  = 1 << 3
	featureExtendedL2   = 1 << 4
	featuresKnown       = featureCompression
)

// ParseHeader parses the first HeaderSize bytes of a file, or all of a shorter one.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < 72 || string(b[:4]) != Magic {
		return Header{}, fmt.Errorf("%w: no header", ErrFormat)
	}
	be := binary.BigEndian
	h := Header{
		Version: be.Uint32(b[4:]), ClusterBits: be.Uint32(b[20:]), Size: int64(be.Uint64(b[24:])),
		L1Entries: int64(be.Uint32(b[36:])), L1Offset: int64(be.Uint64(b[40:])),
	}
	switch {
	case h.Version != 2 && h.Version != 3:
		return Header{}, fmt.Errorf("%w: version %d is neither 2 nor 3", ErrUnsupported, h.Version)
	case be.Uint64(b[8:]) != 0:
		return Header{}, fmt.Errorf("%w: it has a backing file; convert it with qemu-img convert -O qcow2", ErrUnsupported)
	case be.Uint32(b[32:]) != 0:
		return Header{}, fmt.Errorf("%w: it is encrypted; decrypt it with qemu-img convert", ErrUnsupported)
	}
	if h.Version == 3 {
		if err := h.parseFeatures(b); err != nil {
			return Header{}, err
		}
	}
	return h, h.check()
}

func (h *Header) parseFeatures(b []byte) error {
	if len(b) < 104 {
		return fmt.Errorf("%w: truncated header", ErrFormat)
	}
	features, length := binary.BigEndian.Uint64(b[72:]), binary.BigEndian.Uint32(b[100:])
	if length < 104 || length%8 != 0 {
		return fmt.Errorf("%w: header of %d bytes", ErrFormat, length)
	}
	for _, refused := range []struct {
		bit   uint64
		cause string
	}{
		{featureDirty, "it was not closed properly; check it with qemu-img check -r all"},
		{featureCorrupt, "it is marked as corrupt; check it with qemu-img check"},
		{featureExternalData, "its data is in another file; convert it with qemu-img convert -O qcow2"},
		{featureExtendedL2, "it has subclusters; convert it with qemu-img convert -O qcow2 -o extended_l2=off"},
		{^uint64(featuresKnown), "it has unknown features; convert it with qemu-img convert -O qcow2"},
	} {
		if features&refused.bit != 0 {
			return fmt.Errorf("%w: %s", ErrUnsupported, refused.cause)
		}
	}
	if length > 104 {
		if len(b) < 105 {
			return fmt.Errorf("%w: truncated header", ErrFormat)
		}
		h.Compression = Compression(b[104])
	}
	switch {
	case h.Compression > Zstd:
		return fmt.Errorf("%w: compression type %d is neither zlib nor zstd; convert it with qemu-img convert -O qcow2", ErrUnsupported, h.Compression)
	case (h.Compression != Deflate) != (features&featureCompression != 0):
		return fmt.Errorf("%w: compression type %d contradicts the features", ErrFormat, h.Compression)
	}
	return nil
}

// check validates the sizes in the header.
func (h Header) check() error {
	if h.ClusterBits < minClusterBits || h.ClusterBits > maxClusterBits {
		return fmt.Errorf("%w: clusters of 2^%d bytes", ErrFormat, h.ClusterBits)
	}
	perL1 := h.ClusterSize() * h.entries()
	switch {
	case h.Size <= 0 || h.Size > maxClusters<<h.ClusterBits:
		return fmt.Errorf("%w: disk of %d bytes in clusters of %d", ErrFormat, h.Size, h.ClusterSize())
	case h.L1Entries > maxL1 || h.L1Entries < (h.Size+perL1-1)/perL1:
		return fmt.Errorf("%w: first table of %d entries for a disk of %d bytes", ErrFormat, h.L1Entries, h.Size)
	case h.L1Offset <= 0 || h.L1Offset > maxOffset || h.L1Offset%h.ClusterSize() != 0:
		return fmt.Errorf("%w: first table at %d", ErrFormat, h.L1Offset)
	}
	return nil
}

// maxOffset bounds offsets in the file: entries have 56 bits for them.
const maxOffset = 1 << 56
