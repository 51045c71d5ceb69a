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

// What the file system itself brings about would be the same on any server.
func TestBlame(t *testing.T) {
	path := func(errno error) error {
		return fmt.Errorf("write user-data: %w", &os.PathError{Op: "write", Path: "user-data", Err: errno})
	}
	for name, c := range map[string]struct {
		err   error
		of    func(error) error
		image bool
	}{
		"nothing":                       {of: mounting},
		"features of a newer mkfs":      {syscall.EINVAL, mounting, true},
		"it is not whole":               {syscall.EUCLEAN, mounting, true},
		"a checksum in it is wrong":     {syscall.EBADMSG, mounting, true},
		"the kernel has no such":        {syscall.ENODEV, mounting, true},
		"an old version of it":          {syscall.EOPNOTSUPP, mounting, true},
		"large blocks":                  {syscall.ENOSYS, mounting, true},
		"the disk does not read":        {syscall.EIO, mounting, false},
		"the disk is gone":              {syscall.ENXIO, mounting, false},
		"the disk takes no writes":      {syscall.EROFS, mounting, false},
		"nothing was written":           {nil, writing, false},
		"it is full":                    {path(syscall.ENOSPC), writing, true},
		"a file on the path":            {path(syscall.ENOTDIR), writing, true},
		"a loop on the path":            {path(syscall.ELOOP), writing, true},
		"the disk takes no seed":        {path(syscall.EIO), writing, false},
		"full, and the disk fails, too": {errors.Join(path(syscall.ENOSPC), syscall.EIO), writing, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.of(c.err)
			if errors.Is(got, ErrImage) != c.image || !errors.Is(got, c.err) {
				t.Errorf("%v, want the image's fault: %t", got, c.image)
			}
		})
	}
}

// What stands in the seed's place is the image's.
func TestNoPlaceForASeed(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"an absolute link": func(dir string) error { return os.Symlink("/data/lib", filepath.Join(dir, "var", "lib")) },
		"a link that leads out": func(dir string) error {
			return os.Symlink("../../lib", filepath.Join(dir, "var", "lib"))
		},
		"a loop":           func(dir string) error { return os.Symlink("lib", filepath.Join(dir, "var", "lib")) },
		"a file":           func(dir string) error { return os.WriteFile(filepath.Join(dir, "var", "lib"), nil, 0o600) },
		"nothing is amiss": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := openRoot(t)
			err := os.Mkdir(filepath.Join(dir, "var"), 0o755)
			if err := errors.Join(err, prepare(dir)); err != nil {
				t.Fatal(err)
			}
			want := name != "nothing is amiss"
			if err := writing(Write(root, data)); errors.Is(err, ErrImage) != want || (err != nil) != want {
				t.Errorf("%v, want the image's fault: %t", err, want)
			}
		})
	}
}
