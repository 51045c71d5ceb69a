// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Cache is the directory of built images.
type Cache struct {
	root string
	// Force rebuilds existing results.
	Force bool
}

// OpenCache opens the cache in INGOT_CACHE, by default ${XDG_CACHE_HOME:-$HOME/.cache}/ingot.
func OpenCache() (*Cache, error) {
	root := os.Getenv("INGOT_CACHE")
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find the cache directory: %w", err)
		}
		root = filepath.Join(base, "ingot")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find the cache directory: %w", err)
	}
	return &Cache{root: root}, os.MkdirAll(root, 0o755)
}

// Result returns images/<kind>/<key>, calls build if it does not exist, and points
// images/<kind>/current at it. build writes to an empty directory, which becomes the result only if
// build returns no error. Processes that build the same kind wait for each other.
func (c *Cache) Result(kind, key string, build func(dir string) error) (string, error) {
	parent := filepath.Join(c.root, "images", kind)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	unlock, err := lockFile(filepath.Join(parent, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	final := filepath.Join(parent, key)
	if _, err := os.Stat(final); err != nil || c.Force {
		if err := c.buildInto(parent, final, build); err != nil {
			return "", err
		}
	}
	return final, pointAt(filepath.Join(parent, "current"), key)
}

func (c *Cache) buildInto(parent, final string, build func(dir string) error) error {
	work, err := os.MkdirTemp(parent, ".build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := build(work); err != nil {
		return err
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(final); err != nil {
		return err
	}
	return os.Rename(work, final)
}

// pointAt replaces a symbolic link atomically.
func pointAt(link, target string) error {
	next := link + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, next); err != nil {
		return err
	}
	return os.Rename(next, link)
}

func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// Key returns a short hash of the inputs.
func Key(inputs ...string) string {
	h := sha256.New()
	for _, in := range inputs {
		fmt.Fprintf(h, "%d:%s", len(in), in)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// SHA256File returns the checksum of a file in hexadecimal.
func SHA256File(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
