// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nameAnnotation is where containerd looks for the name of an image.
const nameAnnotation = "io.containerd.image.name"

// An Image is one image for this machine's kind of processor.
type Image struct {
	// Name is the full name with the tag, as pods say it.
	Name string
	// Files maps absolute paths in the image to files of this machine. They
	// become readable and executable by all.
	Files map[string]string
	// Links maps absolute paths in the image to what symbolic links there say.
	Links map[string]string
	// Entrypoint is the command; a pod's arguments come after it.
	Entrypoint []string
	// User is a number, so that a pod can be held to not being root; empty
	// means root.
	User string
}

// WriteArchive writes the images as one archive. What they have in common is
// in it once.
func WriteArchive(w io.Writer, images []Image) error {
	a := archive{w: tar.NewWriter(w), written: map[string]bool{}}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, i := range images {
		descriptor, err := a.image(i)
		if err != nil {
			return fmt.Errorf("archive image %s: %w", i.Name, err)
		}
		index.Manifests = append(index.Manifests, descriptor)
	}
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := a.file("index.json", data); err != nil {
		return err
	}
	if err := a.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	return a.w.Close()
}

// An archive is a tar file in the making.
type archive struct {
	w       *tar.Writer
	written map[string]bool // names of files
}

// image adds the blobs of an image and returns its entry for the index.
func (a archive) image(i Image) (v1.Descriptor, error) {
	built, err := i.build()
	if err != nil {
		return v1.Descriptor{}, err
	}
	layers, err := built.Layers()
	if err != nil {
		return v1.Descriptor{}, err
	}
	for _, layer := range layers {
		if err := a.layer(layer); err != nil {
			return v1.Descriptor{}, err
		}
	}
	config, err := built.RawConfigFile()
	if err != nil {
		return v1.Descriptor{}, err
	}
	configName, err := built.ConfigName()
	if err != nil {
		return v1.Descriptor{}, err
	}
	manifest, err := built.RawManifest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest, err := built.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	if err := a.file(blob(configName), config); err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{
		MediaType:   types.OCIManifestSchema1,
		Size:        int64(len(manifest)),
		Digest:      digest,
		Annotations: map[string]string{nameAnnotation: i.Name},
	}, a.file(blob(digest), manifest)
}

func (a archive) layer(layer v1.Layer) error {
	digest, err := layer.Digest()
	if err != nil {
		return err
	}
	size, err := layer.Size()
	if err != nil {
		return err
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	return a.stream(blob(digest), size, content)
}

func (a archive) file(name string, data []byte) error {
	return a.stream(name, int64(len(data)), bytes.NewReader(data))
}

// stream adds a file, unless one of that name is there: names of blobs are their
// digests.
func (a archive) stream(name string, size int64, content io.Reader) error {
	if a.written[name] {
		return nil
	}
	a.written[name] = true
	if err := a.w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size}); err != nil {
		return err
	}
	_, err := io.Copy(a.w, content)
	return err
}

func blob(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }
