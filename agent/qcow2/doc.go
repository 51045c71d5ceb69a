// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package qcow2 reads disk images of QEMU's format qcow2 (versions 2 and 3, QEMU's
// docs/interop/qcow2.txt) as a stream: the bytes of the file in their order go in,
// pieces of the disk come out, in the order of the file. Nothing is staged, and the
// whole file can be hashed on its way.
//
// It is strict. An image that needs another file (a backing file, external data), a
// key, or anything that this reader does not know is refused with ErrUnsupported and
// what to do about it; one that contradicts itself with ErrFormat.
//
// It knows no network, no disk and no checksum: readers in, pieces out.
//
// Where a cluster belongs is told by tables in the file. With a second way into the
// file (an io.ReaderAt) they are read first, and compared with the stream when that
// comes to them; without one, a table must come before the clusters that it names, as
// in the files that qemu-img convert writes, or ErrOrder is returned.
//
//	s, err := qcow2.NewStream(file, tables)
//	for {
//		piece, err := s.Next(nil)
//		if errors.Is(err, io.EOF) {
//			break // s.Holes() are the ranges that read as zero
//		}
//		...
//	}
package qcow2
