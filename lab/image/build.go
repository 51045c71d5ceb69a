// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// searchPath is where a command of one word is looked for, which is what kubeadm
// writes into static pods.
const searchPath = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"

// build makes the image, of one layer.
func (i Image) build() (v1.Image, error) {
	layer, err := newPlainLayer(i.open)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	built, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	config, err := built.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{User: i.User, Entrypoint: i.Entrypoint, Env: []string{"PATH=" + searchPath}, WorkingDir: "/"}
	return mutate.ConfigFile(built, config)
}

// open returns the layer as a tar stream; the same one every time.
func (i Image) open() (io.ReadCloser, error) {
	out, in := io.Pipe()
	go func() { in.CloseWithError(i.writeLayer(in)) }() // ends when out is closed
	return out, nil
}

// A plainLayer is a layer that is not compressed, for which the library has no
// type: its own compresses whatever it is told.
type plainLayer struct {
	open   func() (io.ReadCloser, error)
	digest v1.Hash
	size   int64
}

var _ v1.Layer = (*plainLayer)(nil)

func newPlainLayer(open func() (io.ReadCloser, error)) (*plainLayer, error) {
	content, err := open()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	digest, size, err := v1.SHA256(content)
	if err != nil {
		return nil, err
	}
	return &plainLayer{open: open, digest: digest, size: size}, nil
}

func (l *plainLayer) Digest() (v1.Hash, error)             { return l.digest, nil }
func (l *plainLayer) DiffID() (v1.Hash, error)             { return l.digest, nil }
func (l *plainLayer) Compressed() (io.ReadCloser, error)   { return l.open() }
func (l *plainLayer) Uncompressed() (io.ReadCloser, error) { return l.open() }
func (l *plainLayer) Size() (int64, error)                 { return l.size, nil }
func (l *plainLayer) MediaType() (types.MediaType, error) {
	return types.OCIUncompressedLayer, nil
}

func (i Image) writeLayer(out io.Writer) error {
	w := tar.NewWriter(out)
	for _, dir := range i.directories() {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode}); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Files)) {
		if err := copyFile(w, strings.TrimPrefix(name, "/"), i.Files[name]); err != nil {
			return fmt.Errorf("file %s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Links)) {
		header := &tar.Header{Typeflag: tar.TypeSymlink, Name: strings.TrimPrefix(name, "/"), Linkname: i.Links[name], Mode: 0o777}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	return w.Close()
}

// directories returns those that hold files and links, parents first, and the one for
// temporary files that programs expect.
func (i Image) directories() []string {
	all := map[string]bool{"tmp/": true}
	for _, name := range slices.AppendSeq(slices.Collect(maps.Keys(i.Files)), maps.Keys(i.Links)) {
		for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
			all[strings.TrimPrefix(dir, "/")+"/"] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func copyFile(w *tar.Writer, name, source string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}
