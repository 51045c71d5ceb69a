// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"

	"github.com/ingot-metal/ingot/hack/debian"
)

// ignitionFiles are the files that run Ignition before a system starts.
//
//go:embed ignition
var ignitionFiles embed.FS

// buildIgnitionImage changes the test image so that Debian's Ignition, instead of cloud-init, sets
// it up on its first boot, as in Fedora CoreOS. The boot loader passes "ignition.firstboot" to the
// kernel while a file of that name is on the boot file system. The initramfs reads
// ignition/config.ign from there, and both files are removed at the end. Debian has Ignition's
// units only for dracut. Here a script of initramfs-tools runs the same stages in the same order,
// and the boot file system is the root file system.
func buildIgnitionImage(ctx context.Context, c *debian.Cache) error {
	from, err := buildSystem(ctx, c, "test", debian.Server)
	if err != nil {
		return err
	}
	if err := debian.Need(map[string]string{"debugfs": "e2fsprogs", "dpkg-deb": "dpkg"}); err != nil {
		return err
	}
	deb, err := debian.Download(ctx, c, "ignition")
	if err != nil {
		return err
	}
	sum, err := debian.Checksum(from)
	if err != nil {
		return err
	}
	parts := []string{"ignition 2", sum, filepath.Base(deb)}
	for _, name := range []string{"grub.cfg", "first-boot"} {
		b, err := ignitionFiles.ReadFile("ignition/" + name)
		if err != nil {
			return err
		}
		parts = append(parts, string(b))
	}
	dir, err := c.Result("ignition", debian.Key(parts...), func(dir string) error {
		return assembleIgnition(ctx, filepath.Join(from, debian.DiskFile), deb, dir)
	})
	if err != nil {
		return err
	}
	report, err := debian.Report("ignition image", dir)
	fmt.Print(report)
	return err
}

func assembleIgnition(ctx context.Context, from, deb, dir string) error {
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	if _, err := debian.Run(ctx, "", "dpkg-deb", "-x", deb, filepath.Join(work, "tree")); err != nil {
		return err
	}
	raw := strings.TrimSuffix(filepath.Join(dir, debian.DiskFile), ".zst")
	if err := unpackDisk(raw, from); err != nil {
		return err
	}
	changes, err := ignitionChanges(work)
	if err != nil {
		return err
	}
	// debugfs prints errors, but exits with 0.
	out, err := debian.Run(ctx, work, "debugfs", "-w", "-f", changes, fmt.Sprintf("%s?offset=%d", raw, debian.RootOffset))
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "debugfs: ") && !strings.HasPrefix(line, "Allocated inode: ") && strings.TrimSpace(line) != "" {
			return fmt.Errorf("debugfs: %s", strings.TrimSpace(line))
		}
	}
	return errors.Join(debian.Pack(raw), os.RemoveAll(work))
}

// ignitionChanges writes the changes of the image to work, and returns the script for debugfs.
func ignitionChanges(work string) (string, error) {
	initramfs := filepath.Join(work, "ignition.cpio")
	if err := writeIgnitionInitramfs(initramfs, filepath.Join(work, "tree")); err != nil {
		return "", err
	}
	grub, err := ignitionFiles.ReadFile("ignition/grub.cfg")
	if err != nil {
		return "", err
	}
	var script strings.Builder
	put := func(path, content string, replaces bool) error {
		name := strings.ReplaceAll(path, "/", "_")
		if replaces {
			fmt.Fprintf(&script, "rm %s\n", path)
		}
		fmt.Fprintf(&script, "cd %s\nwrite %s %s\n", filepath.Dir(path), name, filepath.Base(path))
		return os.WriteFile(filepath.Join(work, name), []byte(content), 0o644)
	}
	script.WriteString("mkdir /etc/selinux\n")
	err = errors.Join(
		put("/boot/grub/grub.cfg", string(grub), true),
		put("/ignition.firstboot", "", false),
		// Only so does systemd take the presets in which Ignition says what is enabled
		// (machine-id(5), "first boot semantics").
		put("/etc/machine-id", "uninitialized\n", true),
		put("/etc/cloud/cloud-init.disabled", "", false),
		// Debian's Ignition labels files for SELinux on every system; see noLabels.
		put("/etc/selinux/config", "SELINUX=disabled\nSELINUXTYPE=none\n", false),
		put("/etc/systemd/network/80-dhcp.network", "[Match]\nName=e*\n\n[Network]\nDHCP=ipv4\n", false))
	if err != nil {
		return "", err
	}
	fmt.Fprintf(&script, "cd /boot\nwrite ignition.cpio ignition.cpio\n")
	path := filepath.Join(work, "changes")
	return path, os.WriteFile(path, []byte(script.String()), 0o644)
}

// writeIgnitionInitramfs is what GRUB gives the kernel beside the image's own initramfs:
// the program, and the script that runs it. Its libraries are udev's, and there.
func writeIgnitionInitramfs(path, tree string) error {
	program, err := os.ReadFile(filepath.Join(tree, "usr/lib/dracut/modules.d/30ignition/ignition"))
	if err != nil {
		return err
	}
	script, err := ignitionFiles.ReadFile("ignition/first-boot")
	if err != nil {
		return err
	}
	const bottom = "scripts/local-bottom"
	// noLabels replaces setfiles, because this system has no SELinux.
	const noLabels = "#!/bin/sh\nexec cat > /dev/null\n"
	records := []cpio.Record{
		cpio.Directory("usr/lib/ignition", 0o755), cpio.Directory(bottom, 0o755),
		cpio.StaticFile("usr/bin/ignition", string(program), 0o755),
		cpio.StaticFile("usr/sbin/setfiles", noLabels, 0o755),
		cpio.StaticFile(bottom+"/ignition", string(script), 0o755),
		cpio.StaticFile(bottom+"/ORDER", "/"+bottom+"/ignition \"$@\"\n", 0o644),
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := cpio.Newc.Writer(f)
	err = cpio.WriteRecords(w, records)
	if err == nil {
		err = cpio.WriteTrailer(w)
	}
	return errors.Join(err, f.Close())
}

// unpackDisk decompresses a disk without runs of zeroes.
func unpackDisk(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	decoder, err := zstd.NewReader(in)
	if err != nil {
		return err
	}
	defer decoder.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	size, err := io.Copy(sparse{out}, decoder)
	return errors.Join(err, out.Truncate(size), out.Close())
}

// sparse writes a file without blocks of zeroes.
type sparse struct{ file *os.File }

func (s sparse) Write(b []byte) (int, error) {
	if strings.Trim(string(b), "\x00") == "" {
		_, err := s.file.Seek(int64(len(b)), io.SeekCurrent)
		return len(b), err
	}
	return s.file.Write(b)
}
