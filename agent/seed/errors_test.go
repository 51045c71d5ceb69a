// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Errors by the content of a file system are the image's fault.
func TestImageError(t *testing.T) {
	path := func(errno error) error {
		return fmt.Errorf("write user-data: %w", &os.PathError{Op: "write", Path: "user-data", Err: errno})
	}
	for name, c := range map[string]struct {
		err   error
		of    func(error) error
		image bool
	}{
		"no error":                 {of: mountError},
		"features of a newer mkfs": {syscall.EINVAL, mountError, true},
		"damaged":                  {syscall.EUCLEAN, mountError, true},
		"wrong checksum":           {syscall.EBADMSG, mountError, true},
		"unknown to the kernel":    {syscall.ENODEV, mountError, true},
		"an old version":           {syscall.EOPNOTSUPP, mountError, true},
		"large blocks":             {syscall.ENOSYS, mountError, true},
		"read error":               {syscall.EIO, mountError, false},
		"missing disk":             {syscall.ENXIO, mountError, false},
		"read-only disk":           {syscall.EROFS, mountError, false},
		"no write error":           {nil, writeError, false},
		"full":                     {path(syscall.ENOSPC), writeError, true},
		"a file on the path":       {path(syscall.ENOTDIR), writeError, true},
		"a loop on the path":       {path(syscall.ELOOP), writeError, true},
		"write error":              {path(syscall.EIO), writeError, false},
		"full, and a write error":  {errors.Join(path(syscall.ENOSPC), syscall.EIO), writeError, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.of(c.err)
			if errors.Is(got, ErrImage) != c.image || !errors.Is(got, c.err) {
				t.Errorf("%v, want the image's fault: %t", got, c.image)
			}
		})
	}
}

// Files at the seed's path are the image's fault.
func TestFilesAtTheSeedPath(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"an absolute link": func(dir string) error { return os.Symlink("/data/lib", filepath.Join(dir, "var", "lib")) },
		"a link that leads out": func(dir string) error {
			return os.Symlink("../../lib", filepath.Join(dir, "var", "lib"))
		},
		"a loop":  func(dir string) error { return os.Symlink("lib", filepath.Join(dir, "var", "lib")) },
		"a file":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "var", "lib"), nil, 0o600) },
		"no file": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := openRoot(t)
			err := os.Mkdir(filepath.Join(dir, "var"), 0o755)
			if err := errors.Join(err, prepare(dir)); err != nil {
				t.Fatal(err)
			}
			want := name != "no file"
			if err := writeError(Write(root, data)); errors.Is(err, ErrImage) != want || (err != nil) != want {
				t.Errorf("%v, want the image's fault: %t", err, want)
			}
		})
	}
}
