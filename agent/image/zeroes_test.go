// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"testing"

	"github.com/ingot-metal/ingot/agent/block"
)

// void is a large disk that stores nothing.
type void struct {
	block.Device
	zeroed int64
}

func (v *void) Size() int64 { return 1 << 40 }

func (v *void) Zero(_, n int64) error {
	v.zeroed += n
	return nil
}

// A slow decoder (xz) may produce zeroes for much of the disk. They are written meanwhile,
// since the manager gives up an agent without progress.
func TestLongRunsOfZeroesAreReported(t *testing.T) {
	const size, each = 5 << 29, 16 << 20
	dev, reported := &void{}, int64(0)
	w := &writer{dev: dev, percent: func() int { return 0 }, opts: Options{OnWrite: func(n int64, _ int) { reported = n }}}
	zeroes := make([]byte, each)
	for off := int64(0); off < size; off += each {
		if err := w.write(t.Context(), chunk{off: off, data: zeroes}); err != nil {
			t.Fatal(err)
		}
		if behind := off + each - reported; behind > zeroMost {
			t.Fatalf("%d MiB are unreported at %d MiB", behind>>20, off>>20)
		}
	}
	if err := w.flushZero(t.Context()); err != nil || dev.zeroed != size-headSize || reported != size {
		t.Errorf("%v, %d bytes zeroed, %d reported", err, dev.zeroed, reported)
	}
}
