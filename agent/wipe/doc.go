// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wipe removes the signatures of a disk's old content: partition tables, and those of
// file systems, RAID and LVM on the disk and on each partition, so that nothing old reappears
// when the disk is partitioned again. It does not remove the data itself (see package erase).
//
// The caller decides which disk may be wiped. Partitions are cleaned before the tables that
// lead to them, and the Ingot marker last, so that an interrupted wipe can be repeated
// completely.
//
//	err := wipe.Metadata(ctx, dev)
//
// Before the erasure of a whole disk Inside cleans only partitions and arrays. Erased does the
// rest afterwards.
package wipe
