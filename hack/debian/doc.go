// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debian makes bootable disk images of Debian's packages, without root,
// loop devices or mounts of its caller's, and keeps what was made in a cache.
//
// A System is the recipe: packages, files, units, commands. Build installs them by
// mmdebstrap from the machine's own apt sources, and writes a disk around the
// result: GPT, GRUB for BIOS and UEFI, an EFI system partition, an ext4 root file
// system with the label root. The disk comes out as disk.raw.zst with its checksum.
//
// A Cache keeps results under $INGOT_CACHE/images/<kind>/<key>, where the key is a
// checksum of everything that the result is made from, and the symbolic link
// "current" beside them names the last one asked for.
//
// It must not know what a system is for: no Kubernetes, no Ingot.
//
//	sources, err := debian.Sources(ctx)
//	system := debian.System{Packages: []string{"systemd-sysv", "linux-image-amd64", …}}
//	key, err := system.Key(sources)
//	dir, err := cache.Result("test", key, func(dir string) error {
//		return system.Build(ctx, sources, dir)
//	})
package debian
