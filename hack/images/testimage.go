// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// testRoot is what the test image has beside Debian's packages.
//
//go:embed all:testroot
var testRoot embed.FS

// testPackages are installed without recommended ones. linux-image-amd64 and not
// the cloud kernel, which has no driver for e1000e.
var testPackages = []string{
	"systemd-sysv", "dbus", "udev", "linux-image-amd64", "initramfs-tools", "zstd",
	"cloud-init", "cloud-guest-utils", "fdisk", "e2fsprogs", "openssh-server",
	"systemd-resolved", "iproute2", "iputils-ping", "ca-certificates", "curl",
	"kmod", "sudo", "procps", "less",
}

// testExcludes are paths that dpkg leaves out: documents, and kernel modules of
// devices that no server in the lab has.
var testExcludes = []string{
	"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*",
	"/usr/share/lintian/*", "/usr/share/bash-completion/*",
	"/lib/modules/*/kernel/sound/*",
	"/lib/modules/*/kernel/drivers/gpu/*", "/lib/modules/*/kernel/drivers/media/*",
	"/lib/modules/*/kernel/drivers/net/wireless/*", "/lib/modules/*/kernel/drivers/net/can/*",
	"/lib/modules/*/kernel/drivers/net/usb/*", "/lib/modules/*/kernel/drivers/bluetooth/*",
	"/lib/modules/*/kernel/drivers/staging/*", "/lib/modules/*/kernel/drivers/iio/*",
	"/lib/modules/*/kernel/drivers/infiniband/*", "/lib/modules/*/kernel/drivers/isdn/*",
	"/lib/modules/*/kernel/drivers/hid/*",
	// evdev stays: without it nobody hears the power button, and a graceful
	// power-off never happens.
	"/lib/modules/*/kernel/drivers/input/joystick/*", "/lib/modules/*/kernel/drivers/input/misc/*",
	"/lib/modules/*/kernel/drivers/input/mouse/*", "/lib/modules/*/kernel/drivers/input/tablet/*",
	"/lib/modules/*/kernel/drivers/input/touchscreen/*",
	"/lib/modules/*/kernel/drivers/usb/*", "/lib/modules/*/kernel/drivers/mtd/*",
	"/lib/modules/*/kernel/drivers/comedi/*", "/lib/modules/*/kernel/drivers/scsi/*fc/*",
	"/lib/modules/*/kernel/drivers/net/ethernet/mellanox/*",
	"/lib/modules/*/kernel/drivers/net/ethernet/chelsio/*",
	"/lib/modules/*/kernel/fs/ocfs2/*", "/lib/modules/*/kernel/fs/btrfs/*",
	"/lib/modules/*/kernel/fs/ceph/*", "/lib/modules/*/kernel/fs/nfs*/*",
}

// testMasks are units that would run on a server's first boot for nothing.
var testMasks = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer",
	"e2scrub_all.timer", "e2scrub_reap.service", "man-db.timer",
}

// fileSystemSlackMiB is the free room of the root file system before it is grown
// on first boot.
const fileSystemSlackMiB = 160

// mkfsScript runs inside mmdebstrap's namespace, where the files have their real
// owners. mke2fs copies the tree into a file system without mounting that. The
// bind mount, in a namespace of its own, shows the tree without the /proc and /sys
// that mmdebstrap mounted in it. GRUB 2.06 reads neither of the two features
// switched off.
const mkfsScript = `set -eu
rm -rf "$1"/etc/ssh/ssh_host_* "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/log/*.log "$1"/var/cache/debconf/*-old
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

// buildTestImage makes a bootable disk image: GPT, GRUB for BIOS and UEFI, ext4
// root with cloud-init. Its key is the recipe (packages, files, this layout) and
// the release; newer packages of the same release do not make a new image.
func buildTestImage(ctx context.Context, c *cache) error {
	if err := need(map[string]string{
		"mmdebstrap": "mmdebstrap", "apt-get": "apt", "mke2fs": "e2fsprogs",
		"mformat": "mtools", "mcopy": "mtools", "grub-mkimage": "grub-common",
		grubBIOS + "/boot.img": "grub-pc-bin", grubEFI + "/linux.mod": "grub-efi-amd64-bin",
	}); err != nil {
		return err
	}
	sources, err := aptSources(ctx)
	if err != nil {
		return err
	}
	overlay, err := overlayText()
	if err != nil {
		return err
	}
	key := keyOf("test-image 1", suite(sources), overlay, mkfsScript, fmt.Sprint(fileSystemSlackMiB),
		strings.Join(testPackages, " "), strings.Join(testExcludes, " "), strings.Join(testMasks, " "))
	dir, err := c.result("test", key, func(dir string) error {
		return buildTestDisk(ctx, sources, dir)
	})
	if err != nil {
		return err
	}
	sum, err := os.ReadFile(filepath.Join(dir, "disk.raw.zst.sha256"))
	if err != nil {
		return err
	}
	info, err := os.ReadFile(filepath.Join(dir, "sizes"))
	if err != nil {
		return err
	}
	fmt.Printf("test image: %s\n%schecksum sha256:%s\n", filepath.Join(dir, "disk.raw.zst"), info, strings.Fields(string(sum))[0])
	return nil
}

func buildTestDisk(ctx context.Context, sources []aptSource, dir string) error {
	start := time.Now()
	rootFS := filepath.Join(dir, "root.ext4")
	if err := bootstrapRoot(ctx, sources, dir, rootFS); err != nil {
		return err
	}
	bootstrapped := time.Since(start)
	raw := filepath.Join(dir, "disk.raw")
	if err := assembleDisk(ctx, dir, rootFS, raw); err != nil {
		return err
	}
	if err := os.Remove(rootFS); err != nil {
		return err
	}
	sizes, err := compressDisk(raw, raw+".zst")
	if err != nil {
		return err
	}
	if err := os.Remove(raw); err != nil {
		return err
	}
	fmt.Printf("packages %.0f s, disk %.0f s\n", bootstrapped.Seconds(), (time.Since(start) - bootstrapped).Seconds())
	return os.WriteFile(filepath.Join(dir, "sizes"), []byte(sizes), 0o644)
}

// bootstrapRoot leaves an ext4 file system with the packages at rootFS.
func bootstrapRoot(ctx context.Context, sources []aptSource, dir, rootFS string) error {
	overlay := filepath.Join(dir, "overlay.tar")
	if err := writeOverlay(overlay); err != nil {
		return err
	}
	defer os.Remove(overlay)
	list := filepath.Join(dir, "sources.list")
	if err := os.WriteFile(list, []byte(sourcesList(sources)), 0o644); err != nil {
		return err
	}
	defer os.Remove(list)
	args := []string{
		"--quiet", "--variant=minbase", "--mode=auto", "--format=null",
		"--include=" + strings.Join(testPackages, ","),
		`--aptopt=APT::Install-Recommends "false"`, `--aptopt=Acquire::Retries "3"`,
		"--dpkgopt=force-confold",
		"--essential-hook=tar-in " + overlay + " /",
		`--customize-hook=chroot "$1" systemctl enable systemd-networkd systemd-resolved ssh`,
		`--customize-hook=chroot "$1" systemctl mask ` + strings.Join(testMasks, " "),
		// As text and not as a file, which the namespace's root might not be able to read.
		"--customize-hook=" + fmt.Sprintf(mkfsScript, fileSystemSlackMiB),
		"--customize-hook=download /root.ext4 " + rootFS,
	}
	for _, path := range testExcludes {
		args = append(args, "--dpkgopt=path-exclude="+path)
	}
	args = append(args, suite(sources), "/dev/null", list)
	fmt.Println("installing Debian packages into a root file system (two to four minutes)")
	_, err := tool(ctx, dir, "mmdebstrap", args...)
	return err
}

// overlayText is the content of the overlay, for the key.
func overlayText() (string, error) {
	var b strings.Builder
	err := fs.WalkDir(testRoot, "testroot", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := testRoot.ReadFile(path)
		fmt.Fprintf(&b, "%s %d\n%s", path, len(data), data)
		return err
	})
	return b.String(), err
}

// writeOverlay makes a tar file of the overlay, owned by root whoever runs this.
func writeOverlay(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := tar.NewWriter(f)
	err = fs.WalkDir(testRoot, "testroot", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := testRoot.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, "testroot/")
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatGNU}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := w.Close(); err != nil {
		return err
	}
	return f.Close()
}

// compressDisk writes the compressed image and its checksum, and returns what to
// say about sizes.
func compressDisk(raw, compressed string) (string, error) {
	in, err := os.Open(raw)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.Create(compressed)
	if err != nil {
		return "", err
	}
	defer out.Close()
	enc, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		return "", err
	}
	size, err := io.Copy(enc, in)
	if err != nil {
		return "", fmt.Errorf("compress %s: %w", raw, err)
	}
	if err := enc.Close(); err != nil {
		return "", err
	}
	if err := out.Close(); err != nil {
		return "", err
	}
	sum, err := sha256File(compressed)
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
