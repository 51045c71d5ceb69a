// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"
	"github.com/ulikunitz/xz"
)

func TestParseKernelDependency(t *testing.T) {
	if got := parseKernelDependency("linux-image-amd64\n  Depends: linux-image-6.1.0-1-amd64\n"); got != "linux-image-6.1.0-1-amd64" {
		t.Errorf("%q", got)
	}
	if got := parseKernelDependency("bash\n  Depends: libc6\n"); got != "" {
		t.Errorf("%q", got)
	}
}

func TestKernelSource(t *testing.T) {
	control := "Package: linux-image-6.1.0-1-amd64\nSource: linux-signed-amd64 (6.1.2+3)\nVersion: 6.1.2-3\n"
	if got, want := kernelSource(control), "Debian source packages linux 6.1.2-3 and linux-signed-amd64 (6.1.2+3)\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSourceOf(t *testing.T) {
	for control, want := range map[string]string{
		"Package: systemd-boot-efi\nSource: systemd\nVersion: 252.1-1\n":                                 "Debian source package systemd 252.1-1\n",
		"Package: shim-signed\nSource: shim-signed (1.51)\nVersion: 1.51+16\nBuilt-Using: shim (= 16)\n": "Debian source package shim (= 16)\n",
		"Package: hello\nVersion: 1-1\n":                                                                 "Debian source package hello 1-1\n",
	} {
		if got := sourceOf(control); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestParseModinfo(t *testing.T) {
	got := parseModinfo([]byte("license=GPL\x00depends=mbcache,crc-16\x00alias=fs-ext4\x00alias=pci:v1d2*\x00softdep=pre: crc32c post: other\x00"))
	want := module{depends: []string{"mbcache", "crc_16"}, aliases: []string{"fs-ext4", "pci:v1d2*"}, softPre: []string{"crc32c"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(module{})); diff != "" {
		t.Error(diff)
	}
}

func TestArrange(t *testing.T) {
	set := arrange(map[string]module{
		"ext4":           {name: "ext4", depends: []string{"jbd2", "built_in"}, softPre: []string{"crc32c"}},
		"jbd2":           {name: "jbd2"},
		"crc32c_generic": {name: "crc32c_generic", aliases: []string{"crypto-crc32c"}},
		"mlx4_core":      {name: "mlx4_core", aliases: []string{"pci:v15B3*"}},
		"mlx4_en":        {name: "mlx4_en", depends: []string{"mlx4_core"}},
	})
	wantOrder := "crc32c_generic: \next4: ?crc32c_generic jbd2\njbd2: \nmlx4_core: \nmlx4_en: mlx4_core\n"
	if diff := cmp.Diff(wantOrder, set.order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("alias pci:v15B3* mlx4_core\nalias pci:v15B3* mlx4_en\n", set.alias); diff != "" {
		t.Error(diff)
	}
}

func TestInitramfsIsDeterministicAndReadable(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "init")
	if err := os.WriteFile(binary, []byte("program"), 0o700); err != nil {
		t.Fatal(err)
	}
	ko := filepath.Join(dir, "a.ko")
	if err := os.WriteFile(ko, []byte("module"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := &moduleSet{modules: []module{{name: "a", path: ko}}, order: "a: \n", alias: "alias x:* a\n"}
	var files [2][]byte
	for i := range files {
		records, err := initramfs(binary, set)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "out")
		if _, err := writeInitramfs(path, records); err != nil {
			t.Fatal(err)
		}
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two builds of the same differ")
	}
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := dec.DecodeAll(files[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(plain)))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]uint64{}
	for _, r := range records {
		modes[r.Name] = r.Mode & 0o777
	}
	for name, mode := range map[string]uint64{"init": 0o755, "modules/a.ko": 0o644, "modules/order": 0o644, "dev/console": 0o600} {
		if modes[name] != mode {
			t.Errorf("%s: mode %o, want %o", name, modes[name], mode)
		}
	}
}

// Debian 13 keeps modules compressed below /usr, unlike Debian 12.
func TestModulesOfEitherDebian(t *testing.T) {
	tree := t.TempDir()
	k := &kernelPackage{release: "6.1"}
	if got, want := k.modules(tree), filepath.Join(tree, "lib", "modules", "6.1"); got != want {
		t.Errorf("modules in %s, want %s", got, want)
	}
	merged := filepath.Join(tree, "usr", "lib", "modules", "6.1", "kernel")
	if err := os.MkdirAll(merged, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, want := k.modules(tree), filepath.Dir(merged); got != want {
		t.Errorf("modules in %s, want %s", got, want)
	}
	var packed, squeezed bytes.Buffer
	x, err := xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(&squeezed)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{x, z} {
		if _, err := w.Write([]byte("a module")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string][]byte{"a-b.ko": []byte("a module"), "c.ko.xz": packed.Bytes(), "d.ko.zst": squeezed.Bytes(), "e.ko.gz": nil, "Makefile": nil} {
		if err := os.WriteFile(filepath.Join(merged, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := modulePaths(filepath.Dir(merged))
	if err != nil || len(paths) != 4 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, name := range []string{"a_b", "c", "d"} {
		if got, err := readPlain(paths[name]); err != nil || string(got) != "a module" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := readPlain(paths["e"]); err == nil {
		t.Error("a compression that is not known is read")
	}
}
