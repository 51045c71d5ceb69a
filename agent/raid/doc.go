// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package raid makes a software RAID 1 of whole disks: a Linux MD array with metadata
// 1.0, whose superblock lies at the end of each member. So each member is, to firmware,
// boot loader and kernel, a plain disk with the image's partition table, and the server
// boots from either; and the agent needs neither the md driver nor mdadm.
//
// It knows no orders and no markers: the caller says which disks, and when.
//
// A mirror is written through one block.Device. What is written by other means to its
// first member alone, as a file system that was mounted, is copied by Match. Seal then
// writes the superblocks: what was compared is said to be in sync, and the rest, which
// nobody has written, is left to the installed system's kernel, which reads it from the
// first member until it has copied it in the background.
//
//	m, err := raid.New([]raid.Member{{Name: "/dev/sda", Device: a}, {Name: "/dev/sdb", Device: b}})
//	err = m.ClearTails(ctx)
//	result, err := img.Write(ctx, m, image.Options{})
//	copied, err := m.Match(ctx, result.Bytes, nil)
//	err = m.Seal(raid.Identity{Instance: id, Attempt: 1, Created: time.Now()}, result.Bytes)
//
// The format is that of Linux, include/uapi/linux/raid/md_p.h, struct mdp_superblock_1.
package raid
