// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package erase makes the content of a whole disk unreadable, by the best means that
// the disk has, and proves it: NVMe sanitize and format, ATA secure erase, discard, and
// at last overwriting.
//
// It knows no order: which disk may be erased was decided before. Partition tables,
// signatures and the Ingot marker are package wipe's, which has its turn afterwards.
//
// What holds whatever the disk answers:
//
//   - Before, blocks of known content (canaries) are written all over the disk.
//     Afterwards they are read back: a method after which one is still there has
//     failed, whatever the disk said. Methods that promise zeroes must show zeroes.
//   - A method that fails, is not there, or is locked away by the firmware is followed
//     by the next one. When the last one fails the disk is not erased: ErrNotErased
//     names every method and its failure.
//   - A command that reaches beyond this disk (another namespace of an NVMe
//     controller) is not sent (I12).
//   - A controller that may be at a sanitize still is told nothing else, and asked for some
//     minutes where it does not answer: it would refuse all other methods.
//   - Every method has an end: one that the disk does by itself a deadline made from what
//     the disk says, and from its size; one that writes a least rate.
//   - A drive is not told to be erased that has a password left: it would lock itself.
//
// Overwriting keeps a journal on the disk and goes on where it was cut off. The journal
// is believed only where it was made with the key of whoever orders the work: the disk
// was another's, who could write there what pleases. A drive
// that lost power within a secure erase stays locked with a password that is public
// (ATAPassword), and is unlocked and erased by the next run.
//
//	result, err := erase.Disk(ctx, erase.Target{Device: dev, Commands: commands, Disk: disk}, erase.Options{})
package erase
