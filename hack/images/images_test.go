// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"
)

func TestParseIndexTargets(t *testing.T) {
	got := parseIndexTargets("Debian|http://mirror.example/debian/|bookworm|main\n" +
		"Debian|http://mirror.example/debian/|bookworm|main\n" +
		"Debian|http://mirror.example/debian/|bookworm|non-free\n" +
		"Vendor|https://vendor.example/|stable|main\nbroken line\n" +
		"Debian|http://mirror.example/security/|bookworm-security|main\n")
	want := []aptSource{
		{"http://mirror.example/debian/", "bookworm", "main"},
		{"http://mirror.example/security/", "bookworm-security", "main"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(aptSource{})); diff != "" {
		t.Error(diff)
	}
	if s := suite(got); s != "bookworm" {
		t.Errorf("suite %s", s)
	}
	wantList := "deb http://mirror.example/debian/ bookworm main\ndeb http://mirror.example/security/ bookworm-security main\n"
	if diff := cmp.Diff(wantList, sourcesList(got)); diff != "" {
		t.Error(diff)
	}
}

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

func TestStubSource(t *testing.T) {
	control := "Package: systemd-boot-efi\nSource: systemd\nVersion: 252.1-1\n"
	if got, want := stubSource(control), "Debian source package systemd 252.1-1\n"; got != want {
		t.Errorf("%q, want %q", got, want)
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

func TestCacheBuildsOnceAndKeepsOnlyWhatSucceeded(t *testing.T) {
	c := &cache{root: t.TempDir()}
	builds := 0
	build := func(dir string) error {
		builds++
		return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644)
	}
	for range 2 {
		dir, err := c.result("agent", "k1", build)
		if err != nil {
			t.Fatal(err)
		}
		current, err := filepath.EvalSymlinks(filepath.Join(c.root, "images/agent/current"))
		if err != nil || filepath.Base(current) != filepath.Base(dir) {
			t.Errorf("current is %s, %v", current, err)
		}
	}
	if builds != 1 {
		t.Errorf("built %d times", builds)
	}
	if _, err := c.result("agent", "k2", func(string) error { return io.ErrUnexpectedEOF }); err == nil {
		t.Error("a failed build succeeded")
	}
	entries, err := os.ReadDir(filepath.Join(c.root, "images", "agent"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if diff := cmp.Diff([]string{".lock", "current", "k1"}, names); diff != "" {
		t.Errorf("left after a failed build: %s", diff)
	}
}

func TestPartitionTable(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const rootSectors = 4096
	size := int64(rootStart+rootSectors+backupSectors) * sectorSize
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := writeTable(f, size, rootSectors); err != nil {
		t.Fatal(err)
	}
	table, err := gpt.Read(file.New(f, true), sectorSize, sectorSize)
	if err != nil {
		t.Fatal(err)
	}
	type part struct {
		kind       gpt.Type
		start, end uint64
	}
	var got []part
	for _, p := range table.Partitions {
		if p.Type != gpt.Unused {
			got = append(got, part{p.Type, p.Start, p.End})
		}
	}
	want := []part{
		{gpt.BIOSBoot, 2048, 4095},
		{gpt.EFISystemPartition, 4096, rootStart - 1},
		{gpt.LinuxRootX86_64, rootStart, rootStart + rootSectors - 1},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(part{})); diff != "" {
		t.Error(diff)
	}
}

func TestPatchGrub(t *testing.T) {
	boot, core := make([]byte, 512), make([]byte, 2048)
	if err := patchGrub(boot, core, 2048); err != nil {
		t.Fatal(err)
	}
	if binary.LittleEndian.Uint64(boot[0x5c:]) != 2048 || binary.LittleEndian.Uint64(core[0x1f4:]) != 2049 || boot[0x66] != 0x90 {
		t.Error("addresses are not where GRUB reads them")
	}
	if err := patchGrub(boot, make([]byte, 2<<20), 2048); err == nil {
		t.Error("a core image larger than its partition was accepted")
	}
	if err := patchGrub(boot[:100], core, 2048); err == nil {
		t.Error("a short boot sector was accepted")
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

func TestOverlayIsOwnedByRoot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "overlay.tar")
	if err := writeOverlay(path); err != nil {
		t.Fatal(err)
	}
	out, err := tool(t.Context(), "", "tar", "--numeric-owner", "-tvf", path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "etc/cloud/cloud.cfg.d/95_fast.cfg") {
		t.Errorf("files are missing:\n%s", out)
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); f[0] != "-rw-r--r--" || f[1] != "0/0" {
			t.Errorf("not owned by root: %s", line)
		}
	}
}
