// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package block reads and writes disks through one small interface with two implementations,
// a block device and a regular file, so that the same code installs real and simulated
// servers.
//
//	dev, err := block.OpenFile("disk.raw")
//	...
//	defer dev.Close()
//	err = block.Zero(ctx, dev, 0, 1<<20)
package block
