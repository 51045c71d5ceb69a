// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/ingot-metal/ingot/test/needs"
)

// The archive contains one image with the released name and version, a non-root user, and the
// files that the Deployments need.
func TestArchive(t *testing.T) {
	needs.Full(t) // builds and links the manager
	o := Options{Root: root, Version: testVersion, Out: t.TempDir()}
	r, err := Write(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(o.Out, "images", "ingot-v0.1.0-linux-amd64.tar"); r.Archive != want {
		t.Errorf("archive %s, want %s", r.Archive, want)
	}
	if !strings.Contains(read(t, r.Checksums), "  images/ingot-v0.1.0-linux-amd64.tar\n") {
		t.Error("the archive has no checksum")
	}
	image := open(t, r)
	if err := validate.Image(image); err != nil {
		t.Errorf("the image is not consistent: %v", err)
	}
	checkConfig(t, image)
	files := unpack(t, image)
	checkFiles(t, files)
	checkProgram(t, files["manager"].data)

	if left, _ := filepath.Glob(filepath.Join(o.Out, "images", ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	again, err := imageFiles(t.Context(), o, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range slices.Concat(again...) {
		data, err := f.read()
		if !f.mode.IsDir() && (err != nil || !bytes.Equal(data, files[strings.TrimPrefix(f.path, "/")].data)) {
			t.Errorf("%s differs when it is built again, %v", f.path, err)
		}
	}
}

// open reads the archive as an OCI layout and returns its only image, which must
// carry the name that the components have.
func open(t *testing.T, r *Release) v1.Image {
	t.Helper()
	dir := t.TempDir()
	for name, f := range tarFiles(t, strings.NewReader(read(t, r.Archive))) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if !f.mode.IsDir() {
			if err := os.WriteFile(path, f.data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	path, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	index, err := path.ImageIndex()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("%d images", len(manifest.Manifests))
	}
	want := map[string]string{annotationName: "ghcr.io/ingot-metal/ingot:v0.1.0", annotationTag: "v0.1.0"}
	if diff := cmp.Diff(want, manifest.Manifests[0].Annotations); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	image, err := path.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func checkConfig(t *testing.T, image v1.Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{config.OS, config.Architecture, config.Config.User, strings.Join(config.Config.Entrypoint, " "),
		strings.Join(config.Config.Cmd, " "), config.Config.Labels["org.opencontainers.image.version"], config.Created.UTC().Format("2006")}
	if diff := cmp.Diff([]string{"linux", "amd64", "65532:65532", "/manager", "", "v0.1.0", "1970"}, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

type entry struct {
	mode fs.FileMode
	uid  int
	data []byte
}

// unpack merges the layers.
func unpack(t *testing.T, image v1.Image) map[string]entry {
	t.Helper()
	flat := mutate.Extract(image)
	defer flat.Close()
	return tarFiles(t, flat)
}

func tarFiles(t *testing.T, from io.Reader) map[string]entry {
	t.Helper()
	files := map[string]entry{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(h.Name, "/")] = entry{mode: h.FileInfo().Mode(), uid: h.Uid, data: data}
	}
}

func checkFiles(t *testing.T, files map[string]entry) {
	t.Helper()
	for name, mode := range map[string]fs.FileMode{
		"manager": 0o755, "tmp": fs.ModeDir | fs.ModeSticky | 0o777, "var/cache/ingot": fs.ModeDir | 0o755,
		"etc/passwd": 0o644, "etc/ssl/certs/ca-certificates.crt": 0o644,
		"usr/lib/ipxe/undionly.kpxe": 0o644, "usr/lib/ipxe/ipxe.pxe": 0o644, "usr/lib/ipxe/snponly.efi": 0o644, "usr/lib/ipxe/ipxe.efi": 0o644,
		"usr/share/ingot/agent/vmlinuz": 0o644, "usr/share/ingot/agent/initramfs.cpio.zst": 0o644,
		"usr/share/ingot/agent/linuxx64.efi.stub": 0o644, "usr/share/ingot/agent/shimx64.efi": 0o644, "usr/share/ingot/agent/grubx64.efi": 0o644,
	} {
		if f, ok := files[name]; !ok || f.mode != mode || !mode.IsDir() && len(f.data) == 0 {
			t.Errorf("%s: there %v, mode %v, want %v, %d bytes", name, ok, f.mode, mode, len(f.data))
		}
	}
	if !strings.Contains(string(files["etc/passwd"].data), "nonroot:x:65532:65532:") || files["var/cache/ingot"].uid != nonRoot {
		t.Error("the user of the image is not known in it, or does not own the cache")
	}
	// Third-party files have their license, and those under the GPL their source.
	for name, word := range map[string]string{
		"usr/share/doc/ingot/copyright":                                     "Apache License",
		"usr/share/doc/ipxe/copyright":                                      "GPL",
		"usr/share/doc/ipxe/source":                                         "Debian source package ipxe ",
		"usr/share/doc/linux/copyright":                                     "GPL",
		"usr/share/doc/linux/source":                                        "Debian source packages linux ",
		"usr/share/doc/systemd-boot-efi/copyright":                          "LGPL",
		"usr/share/doc/systemd-boot-efi/source":                             "Debian source package systemd ",
		"usr/share/doc/shim-signed/source":                                  "Debian source package shim ",
		"usr/share/doc/grub-efi-amd64-signed/copyright":                     "GPL",
		"usr/share/doc/grub-efi-amd64-signed/source":                        "Debian source package grub2 ",
		"usr/share/doc/ingot/linked/go/LICENSE":                             "The Go Authors",
		"usr/share/doc/ingot/linked/sigs.k8s.io/controller-runtime/LICENSE": "Apache License",
		"usr/share/doc/ingot/linked/github.com/u-root/u-root/LICENSE":       "BSD",
	} {
		if !bytes.Contains(files[name].data, []byte(word)) {
			t.Errorf("%s lacks %q", name, word)
		}
	}
	var top []string
	for name := range maps.Keys(files) {
		if !strings.Contains(name, "/") {
			top = append(top, name)
		}
	}
	slices.Sort(top)
	if diff := cmp.Diff([]string{"etc", "manager", "tmp", "usr", "var"}, top); diff != "" {
		t.Errorf("top directory (-want +got):\n%s", diff)
	}
}

// checkProgram runs the manager of the image, which must be static.
func checkProgram(t *testing.T, data []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manager")
	if err := os.WriteFile(path, data, 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	if libraries, err := program.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("it needs %v, %v", libraries, err)
	}
	if bytes.Contains(data, []byte(sourceDirectory(t))) {
		t.Error("it holds the path of the source tree")
	}
	out, err := exec.CommandContext(t.Context(), path, "--version").Output()
	if err != nil || strings.TrimSpace(string(out)) != testVersion {
		t.Errorf("--version says %q, %v", out, err)
	}
}

func sourceDirectory(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/cmd/manager"
}

// Images of the same files are identical.
func TestImageOfTheSameFiles(t *testing.T) {
	digest := func(content string) v1.Hash {
		image, err := buildImage(testVersion, [][]file{{{path: "/etc/a", content: content, mode: 0o644}}, {{path: "/b", mode: 0o755}}})
		if err != nil {
			t.Fatal(err)
		}
		digest, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return digest
	}
	if first, second := digest("1"), digest("1"); first != second {
		t.Errorf("digests %s and %s", first, second)
	}
	if first, other := digest("1"), digest("2"); first == other {
		t.Errorf("another file, and the same digest %s", first)
	}
}

// A layer contains the parent directories of its files once, and no information about the builder
// or the time.
func TestLayer(t *testing.T) {
	l, err := layer([]file{
		{path: "/a/b/one", content: "1", mode: 0o644},
		{path: "/a/c", mode: fs.ModeDir | 0o700, uid: 7},
		{path: "/a/c/two", content: "2", mode: 0o600, uid: 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(data); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Join([]string{h.Name, h.FileInfo().Mode().String(), h.ModTime.UTC().Format("2006-01-02"), h.Uname}, " "))
	}
	want := []string{"a/ drwxr-xr-x 1970-01-01 ", "a/b/ drwxr-xr-x 1970-01-01 ", "a/b/one -rw-r--r-- 1970-01-01 ",
		"a/c/ drwx------ 1970-01-01 ", "a/c/two -rw------- 1970-01-01 "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The files for the Dockerfile have the same modes and owners in another directory.
func TestFilesBelowADirectory(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []file{
		{path: "/tmp", mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{path: "/usr/bin/x", content: "x", mode: 0o755},
		{path: "/etc/y", source: filepath.Join(root, "LICENSE"), mode: 0o644, uid: 0},
	} {
		if err := f.writeBelow(dir); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, f.path))
		if err != nil || info.Mode() != f.mode {
			t.Errorf("%s: mode %v, %v, want %v", f.path, info.Mode(), err, f.mode)
		}
	}
	if read(t, filepath.Join(dir, "etc", "y")) != read(t, filepath.Join(root, "LICENSE")) {
		t.Error("a copied file differs")
	}
}

// A linked module without a license fails the release.
func TestLicenses(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"license.go", "main.go", "licenses"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := licensesIn(dir, "/doc"); err == nil {
		t.Errorf("found %v", files)
	}
	for _, name := range []string{"LICENSE-APACHE", "License.md", "COPYING", "NOTICE"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := licensesIn(dir, "/doc")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.path)
	}
	if diff := cmp.Diff([]string{"/doc/COPYING", "/doc/LICENSE-APACHE", "/doc/License.md", "/doc/NOTICE"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The image trusts Debian's CAs, and not those of the build machine.
func TestAuthorities(t *testing.T) {
	dir := t.TempDir()
	if _, err := authorities(dir); err == nil {
		t.Error("an image without authorities")
	}
	for name, content := range map[string]string{"b.crt": "B", "a.crt": "A\n", "notes": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := authorities(dir); err != nil || got != "A\nB\n" {
		t.Errorf("%q, %v", got, err)
	}
}
