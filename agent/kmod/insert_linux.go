// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Insert is the InsertFunc of the kernel. The file must be an *os.File.
func Insert(file fs.File, parameters string) error {
	f, ok := file.(*os.File)
	if !ok {
		return fmt.Errorf("insert a module from %T", file)
	}
	err := unix.FinitModule(int(f.Fd()), parameters, 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
