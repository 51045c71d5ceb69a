// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"strings"

	"github.com/ingot-metal/ingot/pxe"
)

// Files provides the files that the server serves.
type Files interface {
	// Open returns an error that wraps fs.ErrNotExist for a name that the client may not
	// read. It must not block on anything but a local disk.
	Open(client netip.Addr, name string) (*File, error)
}

type File struct {
	io.ReaderAt
	io.Closer
	Size int64
	// Stage and Detail are reported when the file was sent. An empty Stage means
	// pxe.StageLoader with the file's name.
	Stage  pxe.Stage
	Detail string
}

func InMemory(b []byte) *File {
	return &File{ReaderAt: bytes.NewReader(b), Closer: io.NopCloser(nil), Size: int64(len(b))}
}

// OnDisk returns the file, or closes it and fails if it is not a regular file.
func OnDisk(f *os.File) (*File, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &File{ReaderAt: f, Closer: f, Size: info.Size()}, nil
}

// Clean normalizes a file name for Dir. Firmware writes the same name with one or two leading
// slashes, or with backslashes.
func Clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/")
}

// Dir serves the files of one directory tree, and files in memory, which take precedence.
// Names never lead out of the directory.
type Dir struct {
	root   *os.Root
	memory map[string][]byte
}

// OpenDir opens a directory of loaders. Close it after the server has ended.
func OpenDir(dir string, memory map[string][]byte) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open loader directory: %w", err)
	}
	return &Dir{root: root, memory: memory}, nil
}

func (d *Dir) Close() error { return d.root.Close() }

// FS returns the directory without the files in memory.
func (d *Dir) FS() fs.FS { return d.root.FS() }

// Open implements Files. All clients may read all files.
func (d *Dir) Open(_ netip.Addr, name string) (*File, error) {
	clean := Clean(name)
	if b, ok := d.memory[clean]; ok {
		return InMemory(b), nil
	}
	f, err := d.root.Open(clean)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	file, err := OnDisk(f)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	return file, nil
}
