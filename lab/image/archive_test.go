// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/ingot-metal/ingot/lab/image"
)

// read returns the files of a tar archive by name.
func read(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := files[header.Name]; twice {
			t.Errorf("%s is in the archive twice", header.Name)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func decode[T any](t *testing.T, data []byte) T {
	t.Helper()
	var into T
	if err := json.Unmarshal(data, &into); err != nil {
		t.Fatalf("%v in %q", err, data)
	}
	return into
}

// From the index over manifest and configuration to the file, by digests alone.
func TestWriteArchive(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("machine code"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, links := map[string]string{"/usr/bin/x": program}, map[string]string{"/bin/y": "../usr/bin/x"}
	images := []image.Image{
		{Name: "example.com/a:v1", Files: files, Links: links, Entrypoint: []string{"/usr/bin/x", "a"}, User: "1000"},
		{Name: "example.com/b:v1", Files: files, Links: links, Entrypoint: []string{"/usr/bin/x", "b"}},
	}
	var out bytes.Buffer
	if err := image.WriteArchive(&out, images); err != nil {
		t.Fatal(err)
	}
	archive := read(t, out.Bytes())
	blob := func(h v1.Hash) []byte { return archive["blobs/sha256/"+h.Hex] }

	layers := map[v1.Hash]bool{}
	for i, entry := range decode[v1.IndexManifest](t, archive["index.json"]).Manifests {
		if got := entry.Annotations["io.containerd.image.name"]; got != images[i].Name {
			t.Errorf("image %d is called %q, want %q", i, got, images[i].Name)
		}
		manifest := decode[v1.Manifest](t, blob(entry.Digest))
		config := decode[v1.ConfigFile](t, blob(manifest.Config.Digest))
		want := v1.Config{User: images[i].User, Entrypoint: images[i].Entrypoint, Env: []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"}, WorkingDir: "/"}
		if diff := cmp.Diff(want, config.Config); diff != "" {
			t.Errorf("configuration (-want +got):\n%s", diff)
		}
		for _, layer := range manifest.Layers {
			layers[layer.Digest] = true
			content := read(t, blob(layer.Digest))
			want := map[string][]byte{"bin/": {}, "bin/y": {}, "tmp/": {}, "usr/": {}, "usr/bin/": {}, "usr/bin/x": []byte("machine code")}
			if diff := cmp.Diff(want, content); diff != "" {
				t.Errorf("layer (-want +got):\n%s", diff)
			}
		}
	}
	if len(layers) != 1 {
		t.Errorf("%d layers for one and the same file", len(layers))
	}
}

func TestWriteArchiveNamesWhatIsMissing(t *testing.T) {
	err := image.WriteArchive(io.Discard, []image.Image{{Name: "example.com/a:v1", Files: map[string]string{"/x": "/nonexistent"}}})
	if err == nil || !strings.Contains(err.Error(), "example.com/a:v1") || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("WriteArchive = %v, want that it names image and file", err)
	}
}
