// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"io/fs"
	"syscall"
)

// identify reads a file's identity; false where there is none.
func identify(info fs.FileInfo) (fileIdentity, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileIdentity{}, false
	}
	return fileIdentity{Size: st.Size, Inode: st.Ino, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano()}, true
}
