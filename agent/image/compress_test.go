// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

func compress(t testing.TB, how string, raw []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch how {
	case "gzip":
		w := gzip.NewWriter(&out)
		if _, err := w.Write(raw); err != nil || w.Close() != nil {
			t.Fatal("gzip")
		}
	case "zstd":
		w, err := zstd.NewWriter(&out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(raw); err != nil || w.Close() != nil {
			t.Fatal("zstd")
		}
	case "pzstd": // independent frames, each preceded by a skippable frame with its size
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk(raw, len(raw)/3+1) {
			frame := w.EncodeAll(part, nil)
			for _, word := range []uint32{0x184d2a50, 4, uint32(len(frame))} {
				out.Write(binary.LittleEndian.AppendUint32(nil, word))
			}
			out.Write(frame)
		}
	case "xz":
		w, err := xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&out) // a small dictionary for speed
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(raw); err != nil || w.Close() != nil {
			t.Fatal("xz")
		}
	default:
		return raw
	}
	return out.Bytes()
}
