// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image brings an operating system image onto a disk: it reads the source
// over HTTP (waiting while the boot server fetches it, resuming after an
// interruption), checks its checksum, decompresses it and writes it.
//
// It knows nothing of orders, markers or who may write what: the caller names the
// disk and the range that is not to be touched.
//
// Three things hold whatever happens in between:
//
//   - The first MiB, and with it the partition table, is written last, after the
//     checksum of the source was verified; and so is the last MiB of the disk, where
//     the second table is. An interrupted or damaged image leaves a disk that no
//     firmware boots.
//   - A range of zeroes in the image reads as zero on the disk afterwards.
//   - The reserved range is never written; an image that has content there is
//     refused.
//
// Reading, hashing, decompressing and writing run side by side.
//
//	img, err := image.Open(ctx, image.Request{Client: client, URL: url}, image.Format{Checksum: "sha256:…"})
//	defer img.Close()
//	res, err := img.Write(ctx, dev, image.Options{})
package image
