// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

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
