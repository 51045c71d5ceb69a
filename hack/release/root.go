// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteRoot writes the files of the image to dir, for a container engine that builds the image. It
// uses only o.Root and o.Version, and does not check the version against metadata.yaml. Files with
// other owners require root.
func WriteRoot(ctx context.Context, o Options, dir string) error {
	work, err := os.MkdirTemp("", "ingot-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	layers, err := imageFiles(ctx, o, work)
	if err != nil {
		return fmt.Errorf("build the image: %w", err)
	}
	for _, files := range layers {
		for _, f := range files {
			if err := f.writeBelow(dir); err != nil {
				return fmt.Errorf("write %s: %w", f.path, err)
			}
		}
	}
	return nil
}

// writeBelow writes a file with its owner and its mode, regardless of the umask.
func (f file) writeBelow(dir string) error {
	path := filepath.Join(dir, f.path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if f.mode.IsDir() {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	} else {
		data, err := f.read()
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	if f.uid != 0 {
		if err := os.Lchown(path, f.uid, f.uid); err != nil {
			return err
		}
	}
	return os.Chmod(path, f.mode&(fs.ModePerm|fs.ModeSticky))
}
