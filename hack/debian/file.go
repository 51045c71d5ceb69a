// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"archive/tar"
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// base contains the boot configuration of every disk image.
//
//go:embed all:base
var base embed.FS

// File is a file of a system, owned by root. It is installed before the packages, which do not
// replace it.
type File struct {
	// Path is the absolute path in the system.
	Path string
	// Data is the content, unless Source or Link is set.
	Data []byte
	// Source is the file on this machine to copy.
	Source string
	// Link is the target of a symbolic link.
	Link string
	// Mode contains the permissions; 0 means 0644.
	Mode int64
}

// FilesOf lists the files below a directory of an embedded file system, with
// their paths below it.
func FilesOf(from fs.FS, dir string) ([]File, error) {
	var files []File
	err := fs.WalkDir(from, dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, path)
		files = append(files, File{Path: strings.TrimPrefix(path, dir), Data: data})
		return err
	})
	return files, err
}

// identity returns everything about the files that affects a result, except the paths of the sources.
func identity(files []File) (string, error) {
	var b strings.Builder
	for _, f := range sorted(files) {
		content := f.Data
		if f.Source != "" {
			sum, err := SHA256File(f.Source)
			if err != nil {
				return "", err
			}
			content = []byte(sum)
		}
		fmt.Fprintf(&b, "%s %o %q %d\n%s", f.Path, f.mode(), f.Link, len(content), content)
	}
	return b.String(), nil
}

func sorted(files []File) []File {
	return slices.SortedFunc(slices.Values(files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
}

func (f File) mode() int64 {
	if f.Mode == 0 {
		return 0o644
	}
	return f.Mode
}

// writeOverlay writes a tar file of the files, owned by root.
func writeOverlay(path string, files []File) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	w := tar.NewWriter(out)
	for _, f := range sorted(files) {
		if err := f.write(w); err != nil {
			return fmt.Errorf("write %s into the overlay: %w", f.Path, err)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}

func (f File) write(w *tar.Writer) error {
	header := &tar.Header{Name: strings.TrimPrefix(f.Path, "/"), Mode: f.mode(), Format: tar.FormatGNU}
	if f.Link != "" {
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.Link, 0o777
		return w.WriteHeader(header)
	}
	var content io.Reader = bytes.NewReader(f.Data)
	header.Size = int64(len(f.Data))
	if f.Source != "" {
		source, err := os.Open(f.Source)
		if err != nil {
			return err
		}
		defer source.Close()
		info, err := source.Stat()
		if err != nil {
			return err
		}
		content, header.Size = source, info.Size()
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}
