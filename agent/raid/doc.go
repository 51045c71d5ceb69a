// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package raid makes a software RAID 1 of whole disks: a Linux MD array with metadata 1.0,
// whose superblock is at the end of each member. To firmware, boot loader and kernel each
// member is a plain disk with the image's partition table, so the server boots from either.
// The agent needs neither the md driver nor mdadm.
//
// A mirror is written through one block.Device. Match copies what was written by other means
// to the first member alone, such as a mounted file system. Seal then writes the superblocks.
// They declare the compared part as in sync. The rest is unwritten: the installed system's
// kernel reads it from the first member and copies it in the background.
//
//	m, err := raid.New([]raid.Member{{Name: "/dev/sda", Device: a}, {Name: "/dev/sdb", Device: b}})
//	err = m.ClearTails(ctx)
//	result, err := img.Write(ctx, m, image.Options{})
//	copied, err := m.Match(ctx, result.Bytes, nil)
//	err = m.Seal(raid.Identity{Instance: id, Attempt: 1, Created: time.Now()}, result.Bytes)
//
// The format is that of Linux, include/uapi/linux/raid/md_p.h, struct mdp_superblock_1.
package raid
