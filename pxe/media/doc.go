// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package media makes the CD image that a BMC puts into a server's virtual drive: a
// unified kernel image to be started by UEFI, and one small file that is the host's
// own. Image and file are ISO 9660 with one El Torito entry for UEFI, which is a FAT
// file system (UEFI 2.10 §13.3.2.1, El Torito 1.0).
//
// Everything but that file is the same for all hosts, so an image is some kilobytes
// of its own around the kernel image in memory, made anew for each request. The same
// input gives the same bytes. It knows nothing of hosts, tokens or HTTP.
//
//	template, err := media.New(kernelImage)
//	image, err := template.Image([]byte("ingot.token=…\n"))
//	http.ServeContent(w, r, "", time.Time{}, image)
package media
