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

// NewDecoder returns a decoder for the compressed pieces of an image with this
// header. The caller closes it.
func NewDecoder(h Header) (*Decoder, error) {
	d := &Decoder{compression: h.Compression}
	if h.Compression == Deflate {
		d.deflate = flate.NewReader(bytes.NewReader(nil))
		return d, nil
	}
	var err error
	// Other clusters are decoded beside this one; a window is never more than one.
	d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(max(zstd.MinWindowSize, 2*uint64(h.ClusterSize()))))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return d, nil
}

// Decode fills out, which is as long as the piece, with its content. What the data
// holds behind that is not looked at: it belongs to the next cluster.
func (d *Decoder) Decode(out []byte, piece Piece) error {
	var in io.Reader
	if d.compression == Deflate {
		if err := d.deflate.(flate.Resetter).Reset(bytes.NewReader(piece.Data), nil); err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		in = d.deflate
	} else {
		if err := d.zstd.Reset(bytes.NewReader(piece.Data)); err != nil {
			return fmt.Errorf("%w: the cluster at byte %d of the disk: %w", ErrFormat, piece.Off, err)
		}
		in = d.zstd
	}
	if _, err := io.ReadFull(in, out); err != nil {
		return fmt.Errorf("%w: the cluster at byte %d of the disk: %w", ErrFormat, piece.Off, err)
	}
	return nil
}

// Close ends the decoder.
func (d *Decoder) Close() {
	if d.zstd != nil {
		d.zstd.Close()
	}
}
