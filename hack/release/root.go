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

// WriteRoot writes the files of the image below dir, for a container engine that
// makes the image itself. Only o.Root and o.Version count; the version is not
// checked against metadata.yaml. Files of other owners than root need root.
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

// writeBelow writes one file with its mode, whatever the umask, and owner.
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
