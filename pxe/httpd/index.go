// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

var errChanged = errors.New("the file was changed since it was verified")

const indexName = "index.json"

// fileIdentity identifies a verified file with its content. Every write, rename or replacement
// changes the identity: only the kernel sets Changed (the inode's ctime). The zero value means
// no file.
type fileIdentity struct {
	Size     int64  `json:"size"`
	Inode    uint64 `json:"inode"`
	Modified int64  `json:"modified"` // nanoseconds since 1970
	Changed  int64  `json:"changed"`
}

// matches reports whether info describes the same, unchanged file.
func (i fileIdentity) matches(info fs.FileInfo) bool {
	now, ok := identify(info)
	return ok && i == now
}

func identityOf(f *os.File) (fileIdentity, error) {
	info, err := f.Stat()
	if err != nil {
		return fileIdentity{}, fmt.Errorf("read file status of image: %w", err)
	}
	identity, ok := identify(info)
	if !ok {
		return fileIdentity{}, errors.New("read file status of image: the file system has no inode data")
	}
	return identity, nil
}

type index struct {
	Images map[string]indexEntry `json:"images"` // by checksum
	Good   goodURLs              `json:"good,omitempty"`
}

type indexEntry struct {
	fileIdentity
	LastUsed time.Time `json:"lastUsed"`
}

// scan reads the directory and removes unfinished fetches.
func (c *ImageCache) scan() error {
	known := c.loadIndex()
	for checksum, key := range known.Good {
		c.good.remember(checksum, key)
	}
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return fmt.Errorf("read image cache: %w", err)
	}
	for _, e := range entries {
		if partial, _ := filepath.Match(tempPattern, e.Name()); partial {
			if err := os.Remove(filepath.Join(c.cfg.Dir, e.Name())); err != nil {
				return fmt.Errorf("remove unfinished fetch: %w", err)
			}
			continue
		}
		info, err := e.Info()
		checksum, ok := checksumOfFile(e.Name())
		if err != nil || !ok || !info.Mode().IsRegular() {
			continue
		}
		im := &image{state: stateFound, size: info.Size(), lastUsed: info.ModTime()}
		if entry, ok := known.Images[checksum]; ok {
			im.lastUsed = entry.LastUsed
			if entry.matches(info) {
				im.state, im.identity = stateVerified, entry.fileIdentity
			}
		}
		c.images[checksum] = im
	}
	return nil
}

// loadIndex reads the index. If it is missing or invalid, all images are verified again.
func (c *ImageCache) loadIndex() index {
	var i index
	b, err := os.ReadFile(filepath.Join(c.cfg.Dir, indexName))
	if errors.Is(err, fs.ErrNotExist) {
		return i
	}
	if err == nil {
		err = json.Unmarshal(b, &i)
	}
	if err != nil {
		c.cfg.Log.Warn("The image cache index is invalid; verifying all images again", "error", err)
		return index{}
	}
	return i
}

// saveIndex writes the index. An error is not fatal: images missing from the index are only
// verified again after the next start.
func (c *ImageCache) saveIndex() {
	i := index{Images: map[string]indexEntry{}, Good: c.good}
	for checksum, im := range c.images {
		if im.state == stateVerified {
			i.Images[checksum] = indexEntry{fileIdentity: im.identity, LastUsed: im.lastUsed}
		}
	}
	b, err := json.Marshal(i)
	if err == nil {
		err = replaceFile(c.cfg.Dir, indexName, b)
	}
	if err != nil {
		c.cfg.Log.Warn("Cannot save the image cache index", "error", err)
	}
}

// replaceFile writes a file atomically. It does not sync, because the disk may be busy with an
// image: after a power failure an invalid index is ignored, and images are synced before they
// are in the index.
func replaceFile(dir, name string, content []byte) error {
	tmp, err := os.CreateTemp(dir, tempPattern)
	if err != nil {
		return err
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// identify returns the identity of a file, or false if the file system has none.
func identify(info fs.FileInfo) (fileIdentity, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileIdentity{}, false
	}
	return fileIdentity{Size: st.Size, Inode: st.Ino, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano()}, true
}
