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

// ErrImage says that a file system of the image cannot be mounted, or takes no seed, for
// what is in it: its content was verified, and no other server could do it either.
var ErrImage = errors.New("a file system of the image cannot be used")

// What the kernel answers for what is in a file system, and not for the disk below it.
var (
	// unmountable: features, a size of its blocks or a version that this kernel does not
	// know, or a file system that is not whole.
	unmountable = []error{syscall.EINVAL, syscall.EUCLEAN, syscall.EBADMSG, syscall.ENODEV, syscall.EOPNOTSUPP, syscall.ENOSYS}
	// unwritable: it is full, or not whole, or has something else where the seed goes.
	unwritable = []error{syscall.ENOSPC, syscall.EUCLEAN, syscall.EBADMSG, syscall.ENOTDIR, syscall.EISDIR, syscall.EEXIST, syscall.ELOOP, syscall.EPERM}
)

// mounting makes it an ErrImage that a file system was not mounted, where it is one.
func mounting(err error) error { return blame(err, isOneOf(err, unmountable)) }

// writing does so with what was written to a file system that is mounted. os.Root refuses
// a path that leads out of it, by an absolute symbolic link for example, with an error that
// is not the kernel's.
func writing(err error) error {
	refused := false
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		_, kernels := errors.AsType[syscall.Errno](path.Err)
		refused = !kernels
	}
	return blame(err, refused || isOneOf(err, unwritable))
}

func isOneOf(err error, known []error) bool {
	return slices.ContainsFunc(known, func(k error) bool { return errors.Is(err, k) })
}

func blame(err error, image bool) error {
	if err == nil || !image || errors.Is(err, syscall.EIO) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrImage, err)
}

func ofImage(err error) bool { return errors.Is(err, ErrImage) }
