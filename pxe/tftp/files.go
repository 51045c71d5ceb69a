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

// Files is what the server serves.
type Files interface {
	// Open returns an error that wraps fs.ErrNotExist for an unknown name. It
	// must not block on anything but a local disk.
	Open(name string) (File, error)
}

// ClientFiles are Files of which some are for some clients only.
type ClientFiles interface {
	// OpenFor is Files.Open for the client at an address.
	OpenFor(client netip.Addr, name string) (File, error)
}

// File is an open file of known size.
type File interface {
	io.ReaderAt
	io.Closer
	// Size is in bytes.
	Size() int64
}

// StagedFile is a File that is a stage of its own of the boot, and not a boot loader.
type StagedFile interface {
	File
	// Stage is what Observers are told when the file was sent.
	Stage() (stage pxe.Stage, detail string)
}

// Clean is a file's name as Dir understands it. Firmware writes names with slashes in
// front, twice, or with backslashes; all mean the same file.
func Clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/")
}

// Dir serves the files of one directory tree and some made in memory, which
// win over files of the same name. Names never lead out of the directory.
type Dir struct {
	root   *os.Root
	memory map[string][]byte
}

// OpenDir opens a directory of loaders. Close it when the server has ended.
func OpenDir(dir string, memory map[string][]byte) (*Dir, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open loader directory: %w", err)
	}
	return &Dir{root: root, memory: memory}, nil
}

// Close releases the directory.
func (d *Dir) Close() error { return d.root.Close() }

// FS is the directory alone, for others who serve it.
func (d *Dir) FS() fs.FS { return d.root.FS() }

// Open implements Files.
func (d *Dir) Open(name string) (File, error) {
	clean := Clean(name)
	if b, ok := d.memory[clean]; ok {
		return InMemory(b), nil
	}
	f, err := d.root.Open(clean)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open %q: %w", name, err)
	}
	return diskFile{File: f, size: info.Size()}, nil
}

// InMemory is a file of these bytes.
func InMemory(b []byte) File { return memoryFile{bytes.NewReader(b)} }

type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error { return nil }

type diskFile struct {
	*os.File
	size int64
}

func (f diskFile) Size() int64 { return f.size }
