// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// file is an entry of a layer. Exactly one of source and content is set, neither for a directory.
type file struct {
	// path is the absolute path in the image.
	path string
	// source is a path on this machine. Links are followed.
	source string
	// content is the content of the file.
	content string
	// mode contains the permissions, and fs.ModeDir for a directory.
	mode fs.FileMode
	// uid is the owner and group.
	uid int
}

// epoch is the time of all files in the image, so that the build is reproducible.
var epoch = time.Unix(0, 0).UTC()

// layer packs files in the given order, with all parent directories.
func layer(files []file) (v1.Layer, error) {
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	done := map[string]bool{}
	for _, f := range files {
		if err := addParents(w, f.path, done); err != nil {
			return nil, err
		}
		if err := add(w, f); err != nil {
			return nil, fmt.Errorf("put %s into the image: %w", f.path, err)
		}
		done[f.path] = true
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressedCaching)
}

func addParents(w *tar.Writer, path string, done map[string]bool) error {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i := 1; i < len(parts); i++ {
		dir := "/" + strings.Join(parts[:i], "/")
		if done[dir] {
			continue
		}
		done[dir] = true
		if err := add(w, file{path: dir, mode: fs.ModeDir | 0o755}); err != nil {
			return err
		}
	}
	return nil
}

func add(w *tar.Writer, f file) error {
	header := &tar.Header{
		Name: strings.TrimPrefix(f.path, "/"), Mode: int64(f.mode.Perm()), ModTime: epoch,
		Uid: f.uid, Gid: f.uid, Typeflag: tar.TypeReg, Format: tar.FormatPAX,
	}
	if f.mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	if f.mode.IsDir() {
		header.Typeflag = tar.TypeDir
		header.Name += "/"
		return w.WriteHeader(header)
	}
	data, err := f.read()
	if err != nil {
		return err
	}
	header.Size = int64(len(data))
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func (f file) read() ([]byte, error) {
	if f.source == "" {
		return []byte(f.content), nil
	}
	return os.ReadFile(f.source)
}
