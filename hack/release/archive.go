// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Annotations of the image in the archive's index: the full name for containerd, and the tag (OCI).
const (
	annotationName = "io.containerd.image.name"
	annotationTag  = "org.opencontainers.image.ref.name"
)

// writeArchive builds the image and writes it as an OCI image layout in a tar file for `ctr images
// import`, `podman load` and `skopeo`. The file gets its name only when it is complete.
func writeArchive(ctx context.Context, o Options, r *Release) error {
	work, err := os.MkdirTemp("", "ingot-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	layers, err := imageFiles(ctx, o, work)
	if err != nil {
		return err
	}
	image, err := buildImage(o.Version, layers)
	if err != nil {
		return fmt.Errorf("build the image: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(r.Archive), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(r.Archive), ".archive-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already after the rename
	err = writeLayout(tmp, image, r.Image)
	if err = errors.Join(err, tmp.Chmod(0o644), tmp.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return os.Rename(tmp.Name(), r.Archive)
}

// writeLayout writes the OCI image layout: marker, index, blobs.
func writeLayout(to io.Writer, image v1.Image, name string) error {
	index, err := indexOf(image, name)
	if err != nil {
		return err
	}
	w := tar.NewWriter(to)
	for _, f := range []file{
		{path: "oci-layout", content: `{"imageLayoutVersion":"1.0.0"}`, mode: 0o644},
		{path: "index.json", content: string(index), mode: 0o644},
	} {
		if err := add(w, f); err != nil {
			return err
		}
	}
	if err := writeBlobs(w, image); err != nil {
		return err
	}
	return w.Close()
}

// indexOf returns the index with the image of the archive.
func indexOf(image v1.Image, name string) ([]byte, error) {
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	tag := name[strings.LastIndex(name, ":")+1:]
	return json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: types.OCIManifestSchema1, Digest: digest, Size: int64(len(manifest)),
			Platform:    &v1.Platform{OS: "linux", Architecture: architecture},
			Annotations: map[string]string{annotationName: name, annotationTag: tag},
		}},
	})
}

// writeBlobs writes manifest, configuration and layers under their digests.
func writeBlobs(w *tar.Writer, image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	if err := writeBlob(w, digest, bytes.NewReader(manifest)); err != nil {
		return err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	if digest, err = image.ConfigName(); err != nil {
		return err
	}
	if err := writeBlob(w, digest, bytes.NewReader(config)); err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, l := range layers {
		if err := writeLayer(w, l); err != nil {
			return err
		}
	}
	return nil
}

func writeLayer(w *tar.Writer, l v1.Layer) error {
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	data, err := l.Compressed()
	if err != nil {
		return err
	}
	return errors.Join(writeBlob(w, digest, data), data.Close())
}

func writeBlob(w *tar.Writer, digest v1.Hash, from io.Reader) error {
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	return add(w, file{path: "blobs/" + digest.Algorithm + "/" + digest.Hex, content: string(data), mode: 0o644})
}
