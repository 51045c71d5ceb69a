// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package qcow2 reads qcow2 disk images (versions 2 and 3, QEMU's docs/interop/qcow2.txt) as a
// stream. It consumes the bytes of the file in sequence and returns pieces of the disk in the
// sequence of the file, without temporary storage, so that the caller can hash the file.
//
// Images that need another file (backing file, external data), a key, or unknown features are
// refused with ErrUnsupported and instructions. Inconsistent images are refused with
// ErrFormat.
//
// Tables in the file state the positions of the clusters. With random access to the file (an
// io.ReaderAt) they are read first, and compared with the stream later. Without, a table must
// precede its clusters, as in files written by qemu-img convert; otherwise ErrOrder is
// returned.
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
