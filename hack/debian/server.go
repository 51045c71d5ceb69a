// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"embed"
	"slices"
)

// serverFiles are what a server of the lab has beside Debian's packages.
//
//go:embed all:server
var serverFiles embed.FS

// metalFiles are what Metal has beside those.
//
//go:embed all:metal
var metalFiles embed.FS

// serverPackages are installed without recommended ones. linux-image-amd64 and not
// the cloud kernel, which has no driver for e1000e.
var serverPackages = []string{
	"systemd-sysv", "dbus", "udev", "linux-image-amd64", "initramfs-tools", "zstd",
	"cloud-init", "cloud-guest-utils", "fdisk", "e2fsprogs", "openssh-server",
	"systemd-resolved", "iproute2", "iputils-ping", "ca-certificates", "curl",
	"kmod", "sudo", "procps", "less",
}

// serverExcludes are paths that dpkg leaves out: documents, and kernel modules of
// devices that no server in the lab has.
var serverExcludes = []string{
	"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*",
	"/usr/share/lintian/*", "/usr/share/bash-completion/*",
	"/lib/modules/*/kernel/sound/*",
	"/lib/modules/*/kernel/drivers/gpu/*", "/lib/modules/*/kernel/drivers/media/*",
	"/lib/modules/*/kernel/drivers/net/wireless/*", "/lib/modules/*/kernel/drivers/net/can/*",
	"/lib/modules/*/kernel/drivers/net/usb/*", "/lib/modules/*/kernel/drivers/bluetooth/*",
	"/lib/modules/*/kernel/drivers/staging/*", "/lib/modules/*/kernel/drivers/iio/*",
	infiniband, "/lib/modules/*/kernel/drivers/isdn/*",
	keyboards,
	// evdev stays: without it nobody hears the power button, and a graceful
	// power-off never happens.
	"/lib/modules/*/kernel/drivers/input/joystick/*", "/lib/modules/*/kernel/drivers/input/misc/*",
	"/lib/modules/*/kernel/drivers/input/mouse/*", "/lib/modules/*/kernel/drivers/input/tablet/*",
	"/lib/modules/*/kernel/drivers/input/touchscreen/*",
	usb, "/lib/modules/*/kernel/drivers/mtd/*",
	"/lib/modules/*/kernel/drivers/comedi/*", fibreChannel,
	mellanox,
	chelsio,
	"/lib/modules/*/kernel/fs/ocfs2/*", btrfs,
	ceph, nfs,
}

// What metal has of them, and what Kubernetes' volumes are on.
const (
	infiniband   = "/lib/modules/*/kernel/drivers/infiniband/*"
	keyboards    = "/lib/modules/*/kernel/drivers/hid/*"
	usb          = "/lib/modules/*/kernel/drivers/usb/*"
	fibreChannel = "/lib/modules/*/kernel/drivers/scsi/*fc/*"
	mellanox     = "/lib/modules/*/kernel/drivers/net/ethernet/mellanox/*"
	chelsio      = "/lib/modules/*/kernel/drivers/net/ethernet/chelsio/*"
	btrfs        = "/lib/modules/*/kernel/fs/btrfs/*"
	ceph         = "/lib/modules/*/kernel/fs/ceph/*"
	nfs          = "/lib/modules/*/kernel/fs/nfs*/*"
)

// serverMasks are units that would run on a server's first boot for nothing.
var serverMasks = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer",
	"e2scrub_all.timer", "e2scrub_reap.service", "man-db.timer",
}

// Server is the recipe of a plain server: kernel, network, ssh, cloud-init. It can
// be added to.
func Server() (System, error) {
	files, err := FilesOf(serverFiles, "server")
	return System{
		Packages: slices.Clone(serverPackages), Excludes: slices.Clone(serverExcludes), Files: files,
		Enable: []string{"systemd-networkd", "systemd-resolved", "ssh"}, Mask: slices.Clone(serverMasks),
		SlackMiB: 160,
	}, err
}

// Metal is Server for servers of metal: netplan, without which cloud-init makes neither
// bonds nor VLANs, and the kernel modules that such servers and volumes need (0272).
func Metal() (System, error) {
	system, err := Server()
	if err != nil {
		return system, err
	}
	files, err := FilesOf(metalFiles, "metal")
	system.Files = append(system.Files, files...)
	system.Packages = append(system.Packages, "netplan.io")
	system.Excludes = slices.DeleteFunc(system.Excludes, func(path string) bool {
		return slices.Contains([]string{infiniband, keyboards, usb, fibreChannel, mellanox, chelsio, btrfs, ceph, nfs}, path)
	})
	return system, err
}
