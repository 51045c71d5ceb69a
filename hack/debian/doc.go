// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debian builds bootable disk images of Debian packages without root privileges, loop
// devices or mounts on the host, and caches the results.
//
// A System is the recipe: packages, files, units, commands. Build installs the packages with
// mmdebstrap from the machine's apt sources, and writes a disk with GPT, GRUB for BIOS and UEFI,
// an EFI system partition, and an ext4 root file system labeled root. The result is disk.raw.zst
// with its checksum.
//
// A Cache keeps results in $INGOT_CACHE/images/<kind>/<key>. The key is a checksum of all inputs.
// The symbolic link "current" next to them names the last result.
//
// The package does not know what a system is for: no Kubernetes, no Ingot.
//
//	sources, err := debian.Sources(ctx)
//	system := debian.System{Packages: []string{"systemd-sysv", "linux-image-amd64", …}}
//	key, err := system.Key(sources)
//	dir, err := cache.Result("test", key, func(dir string) error {
//		return system.Build(ctx, sources, dir)
//	})
package debian
