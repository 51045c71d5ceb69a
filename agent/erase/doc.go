// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package erase makes the content of a whole disk unreadable by the best method that the
// disk supports, and verifies the result. The methods are NVMe sanitize and format, ATA
// secure erase, discard, and overwriting.
//
// The caller decides which disk may be erased. Package wipe removes partition tables,
// signatures and the Ingot marker afterwards.
//
// The package guarantees:
//
//   - Canaries, blocks of known content, are written across the disk in advance and checked
//     afterwards. A method after which one is still there has failed, whatever the disk
//     reports. Methods that promise zeroes must produce zeroes.
//   - If a method fails or is unavailable, the next one follows. If all fail, ErrNotErased
//     names each method with its failure.
//   - A command that affects more than this disk (another namespace of an NVMe controller) is
//     never sent (I12).
//   - A controller that may still be sanitizing gets no other command, which it would refuse.
//     If it does not answer, it is queried for some minutes.
//   - Every method has a deadline: by the disk's estimate and size for its own commands, by a
//     minimum rate for writes.
//   - A drive with a password does not count as erased, since it would lock itself.
//
// Overwriting keeps a journal on the disk, so that it can resume. The journal counts only if
// it was made with the key of the order: the previous user of the disk could have written a
// false one. A drive that lost power during a secure erase stays locked with a public
// password (ATAPassword). The next run unlocks and erases it.
//
//	result, err := erase.Disk(ctx, erase.Target{Device: dev, Commands: commands, Disk: disk}, erase.Options{})
package erase
