// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/go-cmp/cmp"
)

func TestParseIndexTargets(t *testing.T) {
	got := parseIndexTargets("Debian|http://mirror.example/debian/|bookworm|main\n" +
		"Debian|http://mirror.example/debian/|bookworm|main\n" +
		"Debian|http://mirror.example/debian/|bookworm|non-free\n" +
		"Vendor|https://vendor.example/|stable|main\nbroken line\n" +
		"Debian|http://mirror.example/security/|bookworm-security|main\n")
	want := []Source{
		{"http://mirror.example/debian/", "bookworm", "main"},
		{"http://mirror.example/security/", "bookworm-security", "main"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if s := Suite(got); s != "bookworm" {
		t.Errorf("suite %s", s)
	}
	wantList := "deb http://mirror.example/debian/ bookworm main\ndeb http://mirror.example/security/ bookworm-security main\n"
	if diff := cmp.Diff(wantList, sourcesList(got)); diff != "" {
		t.Error(diff)
	}
}

func TestCacheBuildsOnceAndKeepsOnlyWhatSucceeded(t *testing.T) {
	c := &Cache{root: t.TempDir()}
	builds := 0
	build := func(dir string) error {
		builds++
		return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644)
	}
	for range 2 {
		dir, err := c.Result("agent", "k1", build)
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
	if _, err := c.Result("agent", "k2", func(string) error { return io.ErrUnexpectedEOF }); err == nil {
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

// Files and links are owned by root, and a file of this machine is copied.
func TestOverlay(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("machine code"), 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.tar")
	err := writeOverlay(path, []File{
		{Path: "/usr/bin/kubelet", Link: "kube"},
		{Path: "/usr/bin/kube", Source: source, Mode: 0o755},
		{Path: "/etc/hostname", Data: []byte("localhost\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(t.Context(), "", "tar", "--numeric-owner", "-tvf", path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		got = append(got, strings.Join(append(f[:3:3], f[5:]...), " "))
	}
	want := []string{
		"-rw-r--r-- 0/0 10 etc/hostname",
		"-rwxr-xr-x 0/0 12 usr/bin/kube",
		"lrwxrwxrwx 0/0 0 usr/bin/kubelet -> kube",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The key changes with everything that affects the disk, and with nothing else.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, same, other := write("one", "x"), write("same", "x"), write("other", "y")
	bookworm := []Source{{URI: "http://a.example/", Suite: "bookworm", Component: "main"}}
	system := func(change func(*System)) System {
		s := System{Packages: []string{"a", "b"}, Files: []File{{Path: "/f", Source: one}}, SlackMiB: 1}
		change(&s)
		return s
	}
	key := func(s System, sources []Source) string {
		k, err := s.Key(sources)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	want := key(system(func(*System) {}), bookworm)
	for name, c := range map[string]struct {
		change  func(*System)
		sources []Source
		same    bool
	}{
		"the same file elsewhere": {func(s *System) { s.Files[0].Source = same }, bookworm, true},
		"another mirror":          {func(*System) {}, []Source{{URI: "http://b.example/", Suite: "bookworm", Component: "main"}}, true},
		"another release":         {func(*System) {}, []Source{{URI: "http://a.example/", Suite: "trixie", Component: "main"}}, false},
		"another content":         {func(s *System) { s.Files[0].Source = other }, bookworm, false},
		"another mode":            {func(s *System) { s.Files[0].Mode = 0o755 }, bookworm, false},
		"one package less":        {func(s *System) { s.Packages = s.Packages[:1] }, bookworm, false},
		"a hook":                  {func(s *System) { s.Hooks = []string{"true"} }, bookworm, false},
		"a file of the base":      {func(s *System) { s.Files = append(s.Files, File{Path: "/etc/fstab"}) }, bookworm, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := key(system(c.change), c.sources); (got == want) != c.same {
				t.Errorf("the key is the same: %v, want %v", got == want, c.same)
			}
		})
	}
	if _, err := system(func(s *System) { s.Files[0].Source = filepath.Join(dir, "none") }).Key(bookworm); err == nil {
		t.Error("a missing file has a key")
	}
}

func TestArguments(t *testing.T) {
	s := System{
		Packages: []string{"a", "b"}, Excludes: []string{"/usr/share/doc/*"},
		Enable: []string{"ssh"}, Mask: []string{"fstrim.timer"}, Hooks: []string{"first", "second"}, SlackMiB: 7,
	}
	got := s.arguments("over.tar", "root.ext4")
	for i, arg := range got {
		if strings.HasPrefix(arg, "--customize-hook=set -eu") {
			got[i] = "(file system)"
			if !strings.Contains(arg, "+ 7 ))") {
				t.Errorf("the file system has another free space: %s", arg)
			}
		}
	}
	want := []string{
		"--quiet", "--variant=minbase", "--mode=auto", "--format=null", "--include=a,b",
		`--aptopt=APT::Install-Recommends "false"`, `--aptopt=Acquire::Retries "3"`, "--dpkgopt=force-confold",
		"--essential-hook=tar-in over.tar /",
		`--customize-hook=chroot "$1" systemctl enable ssh`, `--customize-hook=chroot "$1" systemctl mask fstrim.timer`,
		"--customize-hook=first", "--customize-hook=second", "(file system)", "--customize-hook=download /root.ext4 root.ext4",
		"--dpkgopt=path-exclude=/usr/share/doc/*",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCompressDisk(t *testing.T) {
	raw := filepath.Join(t.TempDir(), "disk.raw")
	if err := os.WriteFile(raw, make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	sizes, err := compressDisk(raw, raw+".zst")
	if err != nil {
		t.Fatal(err)
	}
	if sizes != "raw 3 MiB, compressed 0 MiB\n" {
		t.Errorf("sizes %q", sizes)
	}
	sum, err := Checksum(filepath.Dir(raw))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := SHA256File(raw + ".zst"); err != nil || sum != want {
		t.Errorf("checksum %s, want %s, %v", sum, want, err)
	}
}
