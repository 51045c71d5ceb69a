// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image writes an operating system image to a disk. It reads the source over HTTP,
// verifies its checksum, decompresses it and writes it. It waits while the boot server
// fetches the image, and resumes after interruptions.
//
// The package does not know orders or markers: the caller names the disk and the range that
// must not be touched. It guarantees:
//
//   - The first MiB with the partition table is written last, after the checksum of the
//     source is verified, and so is the last MiB of the disk with the second table. After an
//     interruption or a damaged image no firmware boots the disk.
//   - A range of zeroes in the image reads as zero on the disk.
//   - The reserved range is never written. An image with content there is refused.
//
// Reading, hashing, decompressing and writing are concurrent.
//
//	img, err := image.Open(ctx, image.Request{Client: client, URL: url}, image.Format{Checksum: "sha256:…"})
//	defer img.Close()
//	res, err := img.Write(ctx, dev, image.Options{})
package image
