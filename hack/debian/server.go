// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"embed"
	"slices"
	"strings"
)

// serverFiles are the additional files of a server.
//
//go:embed all:server
var serverFiles embed.FS

// metalFiles are the additional files of Metal.
//
//go:embed all:metal
var metalFiles embed.FS

// serverPackages are installed without recommended packages. They include linux-image-amd64,
// because the cloud kernel has no driver for e1000e.
var serverPackages = []string{
	"systemd-sysv", "dbus", "udev", "linux-image-amd64", "initramfs-tools", "zstd",
	"cloud-init", "cloud-guest-utils", "fdisk", "e2fsprogs", "openssh-server",
	"systemd-resolved", "iproute2", "iputils-ping", "ca-certificates", "curl",
	"kmod", "sudo", "procps", "less",
}

// uselessPaths are not installed: documentation, and kernel modules of devices that no server has.
var uselessPaths = []string{
	"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*",
	"/usr/share/lintian/*", "/usr/share/bash-completion/*",
	"/lib/modules/*/kernel/sound/*",
	"/lib/modules/*/kernel/drivers/gpu/*", "/lib/modules/*/kernel/drivers/media/*",
	"/lib/modules/*/kernel/drivers/net/wireless/*", "/lib/modules/*/kernel/drivers/net/can/*",
	"/lib/modules/*/kernel/drivers/net/usb/*", "/lib/modules/*/kernel/drivers/bluetooth/*",
	"/lib/modules/*/kernel/drivers/staging/*", "/lib/modules/*/kernel/drivers/iio/*",
	"/lib/modules/*/kernel/drivers/isdn/*",
	// evdev is required for the power button, and thus for a graceful power-off.
	"/lib/modules/*/kernel/drivers/input/joystick/*", "/lib/modules/*/kernel/drivers/input/misc/*",
	"/lib/modules/*/kernel/drivers/input/mouse/*", "/lib/modules/*/kernel/drivers/input/tablet/*",
	"/lib/modules/*/kernel/drivers/input/touchscreen/*",
	"/lib/modules/*/kernel/drivers/comedi/*",
	"/lib/modules/*/kernel/fs/ocfs2/*",
}

// metalPaths are not installed unless the system is for physical servers: kernel modules of
// devices that the lab does not have (including mtd, which Solarflare network cards need), and of
// file systems of Kubernetes volumes.
var metalPaths = []string{
	"/lib/modules/*/kernel/drivers/mtd/*",
	"/lib/modules/*/kernel/drivers/infiniband/*", "/lib/modules/*/kernel/drivers/hid/*",
	"/lib/modules/*/kernel/drivers/usb/*", "/lib/modules/*/kernel/drivers/scsi/*fc/*",
	"/lib/modules/*/kernel/drivers/net/ethernet/mellanox/*",
	"/lib/modules/*/kernel/drivers/net/ethernet/chelsio/*",
	"/lib/modules/*/kernel/fs/btrfs/*", "/lib/modules/*/kernel/fs/ceph/*", "/lib/modules/*/kernel/fs/nfs*/*",
}

// excludes returns patterns for dpkg, which compares them with the paths in packages. Kernel
// modules are below /usr since Debian 13.
func excludes(lists ...[]string) []string {
	var out []string
	for _, path := range slices.Concat(lists...) {
		out = append(out, path)
		if strings.HasPrefix(path, "/lib/") {
			out = append(out, "/usr"+path)
		}
	}
	return out
}

// serverMasks are units that a server's first boot does not need.
var serverMasks = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer",
	"e2scrub_all.timer", "e2scrub_reap.service", "man-db.timer",
}

// Server returns the recipe of a plain server: kernel, network, ssh, cloud-init.
func Server() (System, error) {
	files, err := FilesOf(serverFiles, "server")
	return System{
		Packages: slices.Clone(serverPackages), Excludes: excludes(uselessPaths, metalPaths), Files: files,
		Enable: []string{"systemd-networkd", "systemd-resolved", "ssh"}, Mask: slices.Clone(serverMasks),
		SlackMiB: 160,
	}, err
}

// Metal returns the recipe for physical servers: Server with netplan, which cloud-init needs for
// bonds and VLANs, NTP with the servers from DHCP, and the kernel modules of such servers and
// volumes.
func Metal() (System, error) {
	system, err := Server()
	if err != nil {
		return system, err
	}
	files, err := FilesOf(metalFiles, "metal")
	system.Files = append(system.Files, files...)
	system.Packages = append(system.Packages, "netplan.io", "systemd-timesyncd")
	system.Enable = append(system.Enable, "systemd-timesyncd")
	system.Excludes = excludes(uselessPaths)
	return system, err
}
