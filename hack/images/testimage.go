// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"fmt"

	"github.com/ingot-metal/ingot/hack/debian"
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

// testSystem is a bootable disk with cloud-init.
func testSystem() (debian.System, error) {
	files, err := debian.FilesOf(testRoot, "testroot")
	return debian.System{
		Packages: testPackages, Excludes: testExcludes, Files: files,
		Enable: []string{"systemd-networkd", "systemd-resolved", "ssh"}, Mask: testMasks,
		SlackMiB: 160,
	}, err
}

// buildTestImage makes the image that tests and demo install, unless it is there.
func buildTestImage(ctx context.Context, c *debian.Cache) error {
	if err := debian.NeedTools(); err != nil {
		return err
	}
	sources, err := debian.Sources(ctx)
	if err != nil {
		return err
	}
	system, err := testSystem()
	if err != nil {
		return err
	}
	key, err := system.Key(sources)
	if err != nil {
		return err
	}
	dir, err := c.Result("test", key, func(dir string) error { return system.Build(ctx, sources, dir) })
	if err != nil {
		return err
	}
	report, err := debian.Report("test image", dir)
	fmt.Print(report)
	return err
}
