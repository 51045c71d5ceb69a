// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qcow2

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// Decoder decompresses clusters. It is for one goroutine.
type Decoder struct {
	compression Compression
	deflate     io.ReadCloser
	zstd        *zstd.Decoder
}

// NewDecoder returns a decoder for the compressed pieces of an image. The caller closes it.
func NewDecoder(h Header) (*Decoder, error) {
	d := &Decoder{compression: h.Compression}
	if h.Compression == Deflate {
		d.deflate = flate.NewReader(bytes.NewReader(nil))
		return d, nil
	}
	var err error
	// Clusters are decoded in parallel by several decoders. A window spans at most one cluster.
	d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(max(zstd.MinWindowSize, 2*uint64(h.ClusterSize()))))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return d, nil
}

// Decode decodes a piece into out, which has the length of the piece. It ignores data after
// the piece, which belongs to the next cluster.
func (d *Decoder) Decode(out []byte, piece Piece) error {
	var in io.Reader = d.deflate
	var err error
	if d.compression == Deflate {
		err = d.deflate.(flate.Resetter).Reset(bytes.NewReader(piece.Data), nil)
	} else {
		in, err = d.zstd, d.zstd.Reset(bytes.NewReader(piece.Data))
	}
	if err == nil {
		_, err = io.ReadFull(in, out)
	}
	if err != nil {
		return fmt.Errorf("%w: the cluster at byte %d of the disk: %w", ErrFormat, piece.Off, err)
	}
	return nil
}

func (d *Decoder) Close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}
