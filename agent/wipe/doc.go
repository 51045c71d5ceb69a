// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wipe removes what a disk's old content is recognised by: partition
// tables, and the signatures of file systems, RAID and LVM on the disk and on
// every partition of it, so that nothing old reappears when the disk is
// partitioned again. It does not remove the data itself: that is another mode of
// cleaning.
//
// It knows no order: which disk may be wiped was decided before.
//
// Partitions are cleaned before the tables that lead to them, and the Ingot marker
// goes last: a wipe that was cut off is repeated and misses nothing.
//
//	err := wipe.Metadata(ctx, dev)
//
// Before a disk is erased as a whole Inside does the same for partitions and arrays alone,
// and Erased what is left to do after it.
package wipe
