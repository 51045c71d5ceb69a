// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/test/needs"
)

const testVersion = "v0.1.0"

// root is the top directory of the source tree.
const root = "../.."

// released is the release of this source tree without images, written once: rendering takes
// seconds. writtenIn is its directory, which TestMain removes.
var (
	writtenIn string
	released  = sync.OnceValues(func() (*Release, error) {
		return Write(context.Background(), Options{Root: root, Version: testVersion, Out: writtenIn, NoImages: true})
	})
)

func TestMain(m *testing.M) {
	var err error
	if writtenIn, err = os.MkdirTemp("", "ingot-release-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(writtenIn)
	os.Exit(code)
}

// write returns a copy of the release in a directory of the test.
func write(t *testing.T) *Release {
	t.Helper()
	needs.Tools(t, "kubectl")
	first, err := released()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(writtenIn)); err != nil {
		t.Fatal(err)
	}
	paths, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	r := &Release{}
	if err := json.Unmarshal(bytes.ReplaceAll(paths, []byte(writtenIn), []byte(dir)), r); err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A release contains exactly the files that clusterctl looks for (K13, K16, K30, K37).
func TestFilesOfARelease(t *testing.T) {
	r := write(t)
	var got []string
	top := filepath.Dir(filepath.Dir(r.Dir))
	err := filepath.WalkDir(top, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(top, path)
			got = append(got, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := "infrastructure-ingot/v0.1.0/"
	runtime := "runtime-extension-ingot/v0.1.0/"
	boot := "addon-ingot/v0.1.0/"
	want := []string{"SHA256SUMS-v0.1.0", boot + "addon-components.yaml", boot + "metadata.yaml", dir + "cluster-template-clusterclass-runtime.yaml", dir + "cluster-template-clusterclass.yaml", dir + "cluster-template-external-endpoint.yaml",
		dir + "cluster-template.yaml", dir + "clusterclass-ingot-runtime.yaml", dir + "clusterclass-ingot.yaml", dir + "infrastructure-components.yaml", dir + "metadata.yaml",
		runtime + "metadata.yaml", runtime + "runtime-extension-components.yaml"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if r.Archive != "" {
		t.Errorf("NoImages wrote an archive: %s", r.Archive)
	}
}

// sha256sum verifies a release.
func TestChecksums(t *testing.T) {
	r := write(t)
	check := func() (string, error) {
		cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", r.Checksums)
		cmd.Dir = filepath.Dir(r.Checksums)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := check()
	if lines := strings.Count(out, ": OK"); err != nil || lines != len(r.Files()) {
		t.Errorf("%d of %d files are as they were, %v:\n%s", lines, len(r.Files()), err, out)
	}
	if err := os.WriteFile(r.Metadata, []byte("another"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := check(); err == nil || !strings.Contains(out, "metadata.yaml: FAILED") {
		t.Errorf("a changed file: %v:\n%s", err, out)
	}
}

func TestManifestsAreTheSameTwice(t *testing.T) {
	first := write(t)
	second, err := Write(t.Context(), Options{Root: root, Version: testVersion, Out: t.TempDir(), NoImages: true})
	if err != nil {
		t.Fatal(err)
	}
	top := func(r *Release) string { return filepath.Dir(filepath.Dir(r.Dir)) }
	for _, path := range append(first.Files(), first.Checksums) {
		again := filepath.Join(top(second), strings.TrimPrefix(path, top(first)))
		if read(t, path) != read(t, again) {
			t.Errorf("%s differs", filepath.Base(path))
		}
	}
}

// Files of an earlier build of the version are removed.
func TestWriteReplacesTheVersion(t *testing.T) {
	r := write(t)
	stale := filepath.Join(r.Dir, "cluster-template-stale.yaml")
	if err := os.WriteFile(stale, []byte("a: b\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o := Options{Root: root, Version: testVersion, Out: filepath.Dir(filepath.Dir(r.Dir)), NoImages: true}
	if _, err := Write(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old file still exists: %v", err)
	}
}

func TestVersions(t *testing.T) {
	metadata := []byte("apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\n" +
		"releaseSeries: [{major: 0, minor: 1, contract: v1beta2}, {major: 1, minor: 10, contract: v1beta2}]\n")
	tests := map[string]string{ // part of the error; empty: none
		"v0.1.0": "", "v0.1.17": "", "v0.1.0-rc.1": "", "v1.10.0": "",
		"":              "not a semantic version",
		"0.1.0":         "not a semantic version",
		"v0.1":          "not a semantic version",
		"v0.1.0+dirty":  "not a semantic version",
		"v0.1.0/../../": "not a semantic version",
		"latest":        "not a semantic version",
		"v0.2.0":        "no release series for v0.2.0, only v0.1, v1.10",
		"v1.1.0":        "no release series",
	}
	for version, want := range tests {
		t.Run(version, func(t *testing.T) {
			err := checkVersion(version, metadata)
			if want == "" && err != nil || want != "" && (!errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), want)) {
				t.Errorf("error %v, want %q", err, want)
			}
		})
	}
}

func TestMetadataIsChecked(t *testing.T) {
	tests := map[string]string{
		"other version": "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha4\nkind: Metadata\nreleaseSeries: [{major: 0, minor: 1, contract: v1beta2}]\n",
		"other kind":    "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Provider\nreleaseSeries: [{major: 0, minor: 1, contract: v1beta2}]\n",
		"unknown field": "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleases: []\n",
		"no YAML":       "\t",
	}
	for name, metadata := range tests {
		t.Run(name, func(t *testing.T) {
			if err := checkVersion("v0.1.0", []byte(metadata)); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

// An invalid version writes nothing.
func TestRefusedVersionWritesNothing(t *testing.T) {
	out := t.TempDir()
	_, err := Write(context.Background(), Options{Root: root, Version: "v99.0.0", Out: out, NoImages: true})
	if !errors.Is(err, ErrVersion) {
		t.Errorf("error %v, want ErrVersion", err)
	}
	if entries, _ := os.ReadDir(out); len(entries) > 0 {
		t.Errorf("it left %v", entries)
	}
}

func TestImagesAreReplacedAndChecked(t *testing.T) {
	deployment := func(image string) []byte {
		return []byte("kind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      containers:\n      - name: manager\n        image: " + image + "\n")
	}
	const released = "registry.example/ingot:v0.1.0"
	tests := map[string]struct {
		image string
		taken bool
	}{
		"tagged":                    {DefaultImage + ":dev", true},
		"without tag":               {DefaultImage, true},
		"another image":             {"busybox:1", false},
		"a name that begins alike":  {DefaultImage + "-extra:dev", false},
		"a registry in front of it": {"mirror.example/" + DefaultImage + ":dev", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			replaced := imageLine.ReplaceAll(deployment(test.image), []byte("${1}"+released))
			err := checkImages(replaced, released)
			if (err == nil) != test.taken {
				t.Errorf("error %v, want taken %v", err, test.taken)
			}
			if test.taken && !bytes.Equal(replaced, deployment(released)) {
				t.Errorf("got\n%s", replaced)
			}
		})
	}
}
