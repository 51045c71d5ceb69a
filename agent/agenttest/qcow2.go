// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/klauspost/compress/flate"

	"github.com/ingot-metal/ingot/agent/block"
)

// Qcow2 describes how a disk is encoded as a qcow2 image.
type Qcow2 struct {
	// ClusterBits is the binary logarithm of the cluster size. Zero: 16.
	ClusterBits int
	// Deflate compresses every second cluster.
	Deflate bool
	// TablesLast puts the tables behind the clusters, as in an image that was changed often.
	TablesLast bool
}

// Image encodes raw as an image. Clusters of zeroes are omitted.
func (q Qcow2) Image(t testing.TB, raw []byte) []byte {
	t.Helper()
	bits := q.ClusterBits
	if bits == 0 {
		bits = 16
	}
	size := 1 << bits
	clusters := (len(raw) + size - 1) / size
	tables := (clusters + size/8 - 1) / (size / 8)
	roundUp := func(n int) int { return (n + size - 1) / size * size }
	l1, l2 := size, size+roundUp(tables*8)
	out := make([]byte, l2+tables*size)
	if q.TablesLast {
		out = out[:size]
	}
	entries := make([]uint64, clusters)
	for i := range clusters {
		content := raw[i*size : min(len(raw), (i+1)*size)]
		switch {
		case block.IsZero(content):
		case q.Deflate && i%2 == 0:
			packed := deflate(t, append(bytes.Clone(content), make([]byte, size-len(content))...))
			// Compressed clusters lie anywhere. The descriptor counts the sectors that they touch.
			sectors := (len(out)+len(packed)-1)/512 - len(out)/512
			entries[i] = 1<<62 | uint64(sectors)<<(62-(bits-8)) | uint64(len(out))
			out = append(out, packed...)
		default:
			out = append(out, make([]byte, roundUp(len(out))-len(out))...)
			entries[i] = 1<<63 | uint64(len(out))
			out = append(out, content...)
		}
	}
	if q.TablesLast {
		l1 = roundUp(len(out))
		l2 = l1 + roundUp(tables*8)
		out = append(out, make([]byte, l2+tables*size-len(out))...)
	}
	be := binary.BigEndian
	for i := range tables {
		be.PutUint64(out[l1+i*8:], 1<<63|uint64(l2+i*size))
	}
	for i, entry := range entries {
		be.PutUint64(out[l2+i*8:], entry)
	}
	copy(out, "QFI\xfb")
	be.PutUint32(out[4:], 3)
	be.PutUint32(out[20:], uint32(bits))
	be.PutUint64(out[24:], uint64(len(raw)))
	be.PutUint32(out[36:], uint32(tables))
	be.PutUint64(out[40:], uint64(l1))
	be.PutUint32(out[100:], 104)
	return out
}

func deflate(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
