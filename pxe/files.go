// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// ErrNoFile is returned for a file that the registry does not hold.
var ErrNoFile = errors.New("no such file")

// Files is the content-addressed registry of the kernels and initramfs images that HTTP
// serves. No other file can be fetched, whatever path a client requests. The zero value is
// an empty registry. It is safe for concurrent use.
type Files struct {
	mu    sync.RWMutex
	files map[File]fileEntry
}

type fileEntry struct {
	path    string
	size    int64
	modTime time.Time
}

// Add registers a file under its base name and digest. It reads the whole file. Adding the
// same content again has no effect.
func (f *Files) Add(path string) (File, error) {
	name := filepath.Base(path)
	if err := validName(name); err != nil {
		return File{}, fmt.Errorf("register %s: %w", path, err)
	}
	src, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("register boot file: %w", err)
	}
	defer func() { _ = src.Close() }()
	info, err := src.Stat()
	if err != nil {
		return File{}, fmt.Errorf("register boot file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return File{}, fmt.Errorf("register boot file: %s is not a regular file", path)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, src); err != nil {
		return File{}, fmt.Errorf("read boot file %s: %w", path, err)
	}
	file := File{SHA256: hex.EncodeToString(sum.Sum(nil)), Name: name}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.files == nil {
		f.files = map[File]fileEntry{}
	}
	f.files[file] = fileEntry{path: path, size: info.Size(), modTime: info.ModTime()}
	return file, nil
}

// Open opens a registered file and returns its modification time. The error wraps ErrNoFile
// if the file changed after Add, so that clients always get the content of the digest.
func (f *Files) Open(file File) (*os.File, time.Time, error) {
	f.mu.RLock()
	entry, ok := f.files[file]
	f.mu.RUnlock()
	if !ok {
		return nil, time.Time{}, fmt.Errorf("open %s: %w", file.Name, ErrNoFile)
	}
	src, err := os.Open(entry.path)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("open %s: %w", file.Name, errors.Join(ErrNoFile, err))
	}
	info, err := src.Stat()
	if err != nil {
		return nil, time.Time{}, errors.Join(fmt.Errorf("open %s: %w", file.Name, err), src.Close())
	}
	if info.Size() != entry.size || !info.ModTime().Equal(entry.modTime) {
		err := fmt.Errorf("open %s: changed on disk since it was registered: %w", file.Name, ErrNoFile)
		return nil, time.Time{}, errors.Join(err, src.Close())
	}
	return src, entry.modTime, nil
}

// validName allows only characters that need no quoting in URLs, iPXE scripts and kernel
// command lines.
func validName(name string) error {
	if name == "" || strings.Trim(name, ".") == "" {
		return fmt.Errorf("file name %q is empty", name)
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-+", r):
		default:
			return fmt.Errorf("file name %q holds %q, want letters, digits, dot, dash, plus, underscore", name, r)
		}
	}
	return nil
}
