// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
)

// ErrImage reports that a file system of the image cannot be mounted, or cannot take the
// first-boot data, because of its content. The content was verified, so that every server
// would fail.
var ErrImage = errors.New("a file system of the image cannot be used")

// Errors of the kernel that the content of a file system causes, not the disk.
var (
	// mountErrnos: features, block size or version that this kernel does not know, or a
	// damaged file system.
	mountErrnos = []error{syscall.EINVAL, syscall.EUCLEAN, syscall.EBADMSG, syscall.ENODEV, syscall.EOPNOTSUPP, syscall.ENOSYS}
	// writeErrnos: the file system is full or damaged, or has another file at the path.
	writeErrnos = []error{syscall.ENOSPC, syscall.EUCLEAN, syscall.EBADMSG, syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.ELOOP, syscall.EPERM}
)

// mountError wraps the error of a mount in ErrImage if the content causes it.
func mountError(err error) error { return imageError(err, isAnyOf(err, mountErrnos)) }

// writeError wraps the error of a write to a mounted file system in ErrImage if the content
// causes it. os.Root refuses paths that lead out of it, for example by an absolute symbolic
// link, with an error that is not an Errno.
func writeError(err error) error {
	refused := false
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		_, isErrno := errors.AsType[syscall.Errno](path.Err)
		refused = !isErrno
	}
	return imageError(err, refused || isAnyOf(err, writeErrnos))
}

func isAnyOf(err error, known []error) bool {
	return slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) })
}

func imageError(err error, image bool) error {
	if err == nil || !image || errors.Is(err, syscall.EIO) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrImage, err)
}
