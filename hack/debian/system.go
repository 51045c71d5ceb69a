// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// DiskFile is the name of the compressed disk in a result. Next to it are its checksum (DiskFile +
// ".sha256", in the format of sha256sum) and SizesFile, a readable summary.
const (
	DiskFile  = "disk.raw.zst"
	SizesFile = "sizes"
)

// layout is a version that changes with the code of this package that affects a disk but is not
// part of a System.
const layout = "debian disk 2"

// System is the recipe of a disk image.
type System struct {
	// Packages are installed without recommended packages.
	Packages []string
	// Excludes are patterns of paths that dpkg does not install.
	Excludes []string
	// Files are additional files. They replace files of this package with the same path.
	Files []File
	// Enable and Mask are systemd units.
	Enable, Mask []string
	// Hooks are shell scripts that run in order after all packages and files are installed, with
	// the directory of the tree as "$1". They may use chroot.
	Hooks []string
	// SlackMiB is the free space of the root file system before it grows on the first boot.
	SlackMiB int
}

// mkfsScript runs inside mmdebstrap's namespace, where the files have their real owners, before
// mmdebstrap cleans up. It removes unnecessary files, including the downloaded packages. mke2fs
// copies the tree into a file system without mounting it. The bind mount in its own namespace
// hides the /proc and /sys that mmdebstrap mounted. GRUB 2.06 supports neither of the two disabled
// features.
const mkfsScript = `set -eu
rm -rf "$1"/etc/ssh/ssh_host_* "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/cache/apt/archives/*.deb "$1"/var/log/*.log "$1"/var/cache/debconf/*-old
: > "$1/etc/machine-id"
rm -f "$1/var/lib/dbus/machine-id"
size=$(( $(du -smx "$1" | cut -f1) + %d ))
rm -f "$1.ext4"
truncate -s "${size}M" "$1.ext4"
mkdir "$1.bare"
unshare --mount --propagation private sh -euc '
  mount --bind "$1" "$1.bare"
  /sbin/mke2fs -q -t ext4 -L root -m 1 -O ^metadata_csum_seed,^orphan_file -d "$1.bare" "$1.ext4"' sh "$1"
rmdir "$1.bare"
mv "$1.ext4" "$1/root.ext4"`

// NeedTools returns an error with the packages and privileges that Build lacks on this machine.
func NeedTools(ctx context.Context) error {
	err := Need(map[string]string{
		"mmdebstrap": "mmdebstrap", "apt-get": "apt", "mke2fs": "e2fsprogs",
		"mformat": "mtools", "mcopy": "mtools", "grub-mkimage": "grub-common",
		grubBIOS + "/boot.img": "grub-pc-bin", grubEFI + "/linux.mod": "grub-efi-amd64-bin",
	})
	if err != nil || os.Geteuid() != 0 { // without root mmdebstrap uses a user namespace
		return err
	}
	if _, err := Run(ctx, "", "unshare", "--mount", "true"); err != nil {
		return fmt.Errorf("create a mount namespace for building images (a container needs CAP_SYS_ADMIN, docker run --privileged): %w", err)
	}
	return nil
}

// files returns the files of the system and of this package.
func (s System) files() ([]File, error) {
	all, err := FilesOf(base, "base")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(f File) bool {
		return slices.ContainsFunc(s.Files, func(own File) bool { return own.Path == f.Path })
	})
	return append(all, s.Files...), nil
}

// Key returns the cache key of Build's result. Newer packages of the same release do not change it.
func (s System) Key(sources []Source) (string, error) {
	files, err := s.files()
	if err != nil {
		return "", err
	}
	text, err := identity(files)
	if err != nil {
		return "", err
	}
	return Key(layout, Suite(sources), text, mkfsScript, fmt.Sprint(s.SlackMiB),
		strings.Join(s.Packages, " "), strings.Join(s.Excludes, " "), strings.Join(s.Enable, " "),
		strings.Join(s.Mask, " "), fmt.Sprintf("%q", s.Hooks)), nil
}

// Build writes the disk, its checksum and its sizes to dir. It reports progress on standard output.
func (s System) Build(ctx context.Context, sources []Source, dir string) error {
	start := time.Now()
	rootFS := filepath.Join(dir, "root.ext4")
	if err := s.bootstrap(ctx, sources, dir, rootFS); err != nil {
		return err
	}
	bootstrapped := time.Since(start)
	raw := strings.TrimSuffix(filepath.Join(dir, DiskFile), ".zst")
	if err := assembleDisk(ctx, dir, rootFS, raw); err != nil {
		return err
	}
	if err := os.Remove(rootFS); err != nil {
		return err
	}
	if err := Pack(raw); err != nil {
		return err
	}
	fmt.Printf("packages %.0f s, disk %.0f s\n", bootstrapped.Seconds(), (time.Since(start) - bootstrapped).Seconds())
	return nil
}

// Pack compresses a disk (DiskFile without .zst), writes its checksum and sizes, and removes the
// uncompressed disk.
func Pack(raw string) error {
	sizes, err := compressDisk(raw, raw+".zst")
	if err != nil {
		return err
	}
	if err := os.Remove(raw); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(raw), SizesFile), []byte(sizes), 0o644)
}

// bootstrap writes an ext4 file system with the packages to rootFS.
func (s System) bootstrap(ctx context.Context, sources []Source, dir, rootFS string) error {
	files, err := s.files()
	if err != nil {
		return err
	}
	overlay := filepath.Join(dir, "overlay.tar")
	if err := writeOverlay(overlay, files); err != nil {
		return err
	}
	defer os.Remove(overlay)
	list := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(list, []byte(sourcesList(sources)), 0o644); err != nil {
		return err
	}
	defer os.Remove(list)
	fmt.Println("installing Debian packages into a root file system (two to four minutes)")
	_, err = Run(ctx, dir, "mmdebstrap", append(s.arguments(overlay, rootFS), Suite(sources), "/dev/null", list)...)
	return err
}

// Extract writes the files of packages and their dependencies as a tar archive, without running their
// scripts.
func Extract(ctx context.Context, sources []Source, packages []string, archive string) error {
	list := archive + ".sources.list"
	if err := os.WriteFile(list, []byte(sourcesList(sources)), 0o644); err != nil {
		return err
	}
	defer os.Remove(list)
	_, err := Run(ctx, "", "mmdebstrap", "--quiet", "--variant=extract", "--mode=auto", "--format=tar",
		"--include="+strings.Join(packages, ","), `--aptopt=APT::Install-Recommends "false"`, `--aptopt=Acquire::Retries "3"`,
		Suite(sources), archive, list)
	return err
}

// arguments returns the arguments of mmdebstrap before the suite.
func (s System) arguments(overlay, rootFS string) []string {
	args := []string{
		"--quiet", "--variant=minbase", "--mode=auto", "--format=null",
		"--include=" + strings.Join(s.Packages, ","),
		`--aptopt=APT::Install-Recommends "false"`, `--aptopt=Acquire::Retries "3"`,
		"--dpkgopt=force-confold",
		"--essential-hook=tar-in " + overlay + " /",
		`--customize-hook=chroot "$1" systemctl enable ` + strings.Join(s.Enable, " "),
		`--customize-hook=chroot "$1" systemctl mask ` + strings.Join(s.Mask, " "),
	}
	for _, hook := range s.Hooks {
		args = append(args, "--customize-hook="+hook)
	}
	args = append(args,
		// Inline, because root of the namespace may be unable to read a file.
		"--customize-hook="+fmt.Sprintf(mkfsScript, s.SlackMiB),
		"--customize-hook=download /root.ext4 "+rootFS)
	for _, path := range s.Excludes {
		args = append(args, "--dpkgopt=path-exclude="+path)
	}
	return args
}

// compressDisk writes the compressed image and its checksum, and returns a summary of the sizes.
func compressDisk(raw, compressed string) (string, error) {
	size, err := compress(raw, compressed)
	if err != nil {
		return "", fmt.Errorf("compress %s: %w", raw, err)
	}
	sum, err := SHA256File(compressed)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(compressed)
	if err != nil {
		return "", err
	}
	line := fmt.Sprintf("%s  %s\n", sum, filepath.Base(compressed))
	if err := os.WriteFile(compressed+".sha256", []byte(line), 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("raw %d MiB, compressed %d MiB\n", size>>20, info.Size()>>20), nil
}

// compress returns the uncompressed size.
func compress(from, to string) (int64, error) {
	in, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return 0, err
	}
	enc, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return 0, errors.Join(err, out.Close())
	}
	size, err := io.Copy(enc, in)
	return size, errors.Join(err, enc.Close(), out.Close())
}

// Checksum returns the checksum of the disk in a result, in hexadecimal.
func Checksum(dir string) (string, error) {
	path := filepath.Join(dir, DiskFile+".sha256")
	line, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum, _, ok := strings.Cut(string(line), " ")
	if !ok {
		return "", fmt.Errorf("read the checksum: %s contains none", path)
	}
	return sum, nil
}

// Report returns a summary of the disk in a result.
func Report(what, dir string) (string, error) {
	sum, err := Checksum(dir)
	if err != nil {
		return "", err
	}
	sizes, err := os.ReadFile(filepath.Join(dir, SizesFile))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %s\n%schecksum sha256:%s\n", what, filepath.Join(dir, DiskFile), sizes, sum), nil
}
