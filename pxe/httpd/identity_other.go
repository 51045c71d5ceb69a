// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package httpd

import "io/fs"

// identify knows files by size and time only, which is enough for tests: boot
// servers run on Linux.
func identify(info fs.FileInfo) (fileIdentity, bool) {
	return fileIdentity{Size: info.Size(), Modified: info.ModTime().UnixNano()}, true
}
