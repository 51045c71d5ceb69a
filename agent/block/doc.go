// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package block is how the agent reads and writes disks: one small interface, a
// real block device and a plain file behind it, so that the same code installs a
// server and a simulated one.
//
// It knows nothing of images, markers or orders: only bytes at offsets, ranges
// that read as zero, and what is durable.
//
//	dev, err := block.OpenFile("disk.raw")
//	...
//	defer dev.Close()
//	err = block.Zero(ctx, dev, 0, 1<<20) // however the device does it
package block
