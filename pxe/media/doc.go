// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package media makes the CD image that a BMC attaches to a server: a unified kernel image for
// UEFI, and one small file for the host. The image is ISO 9660 with one El Torito entry for
// UEFI, which is a FAT file system (UEFI 2.10 section 13.3.2.1, El Torito 1.0).
//
// Only the small file differs between hosts, so an image adds some kilobytes to the kernel
// image in memory and is made for each request. The same input gives the same bytes. The
// package knows nothing of hosts, tokens or HTTP.
//
//	template, err := media.New(kernelImage)
//	image, err := template.Image([]byte("ingot.token=…\n"))
//	http.ServeContent(w, r, "", time.Time{}, image)
package media
