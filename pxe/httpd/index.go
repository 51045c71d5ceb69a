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

// errTouched reports a file that is not the one that was verified, or no longer.
var errTouched = errors.New("the file was changed since it was verified")

// indexName is the file that says which images were verified.
const indexName = "index.json"

// fileIdentity is by what a file is known to be the one that was verified, with
// the content that it had then. What writes to a file, renames or replaces it
// changes one of these; the kernel alone sets Changed (the inode's ctime), so that
// restoring the others does not help. All zero: no file.
type fileIdentity struct {
	Size     int64  `json:"size"`
	Inode    uint64 `json:"inode"`
	Modified int64  `json:"modified"` // nanoseconds since 1970
	Changed  int64  `json:"changed"`
}

// is says whether this is the file, unchanged.
func (i fileIdentity) is(info fs.FileInfo) bool {
	now, ok := identify(info)
	return ok && i == now
}

// identityOf is that of an open file.
func identityOf(f *os.File) (fileIdentity, error) {
	info, err := f.Stat()
	if err != nil {
		return fileIdentity{}, fmt.Errorf("look at image: %w", err)
	}
	identity, ok := identify(info)
	if !ok {
		return fileIdentity{}, errors.New("look at image: the file system tells no identity")
	}
	return identity, nil
}

// index is what is kept of the cache's state on disk.
type index struct {
	Images map[string]indexEntry `json:"images"` // by checksum
	Good   goodPlaces            `json:"good,omitempty"`
}

type indexEntry struct {
	fileIdentity
	LastUsed time.Time `json:"lastUsed"`
}

// scan takes stock of the directory, and removes unfinished fetches.
func (c *ImageCache) scan() error {
	known := c.loadIndex()
	for checksum, key := range known.Good {
		c.good.note(checksum, key)
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
			if entry.is(info) {
				im.state, im.identity = stateVerified, entry.fileIdentity
			}
		}
		c.images[checksum] = im
	}
	return nil
}

// loadIndex reads the index. Without one, or with one that makes no sense, all
// images are verified anew.
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
		c.cfg.Log.Warn("index of the image cache is unusable, images are verified again", "error", err)
		return index{}
	}
	return i
}

// saveIndex writes the index. An image that is not in it is verified again after
// the next start: so a failure costs time only.
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
		c.cfg.Log.Warn("index of the image cache not saved", "error", err)
	}
}

// replaceFile writes a file as a whole or not at all. It does not wait for the disk,
// which may be busy with an image: what a power cut leaves of the index makes sense or is
// not believed, and an image is on the disk before it is in the index.
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

// identify reads a file's identity; false where there is none.
func identify(info fs.FileInfo) (fileIdentity, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileIdentity{}, false
	}
	return fileIdentity{Size: st.Size, Inode: st.Ino, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano()}, true
}
