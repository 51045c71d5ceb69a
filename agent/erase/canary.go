// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
)

const (
	// canarySize is the size of a canary: a multiple of every disk's sector.
	canarySize = 4096
	// canaries are spread over the disk, and at its two ends.
	canaries = 1024
	// reserved are the journal and the marker at the end of the first MiB, which stay
	// until the last: the one says how far the work is, the other whose the disk is (I8).
	reservedFrom = JournalOffset
	reservedTo   = agentapi.MarkerOffset + agentapi.MarkerSize
)

// errStillThere: after an erasure the disk shows what was on it before.
var errStillThere = errors.New("the disk still shows what was on it before")

// places of the canaries from a byte on, in order. A small disk has fewer.
func (e *eraser) places(from int64) []int64 {
	step := max(canarySize, (e.size-canarySize)/(canaries-1)/canarySize*canarySize)
	var out []int64
	for off := int64(0); off+canarySize <= e.size; off += step {
		if off >= from && (off+canarySize <= reservedFrom || off >= reservedTo) {
			out = append(out, off)
		}
	}
	if last := (e.size - canarySize) / canarySize * canarySize; last >= from && last >= reservedTo && (len(out) == 0 || out[len(out)-1] < last) {
		out = append(out, last)
	}
	return out
}

// canary is the content for a place: the same for each run on the same disk, so that
// one that was planted before a restart is known after it, and random in all else.
func (e *eraser) canary(off int64) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "ingot canary\x00%s\x00%s\x00%d\x00", e.Target.Disk.Serial, e.Target.Disk.WWN, e.size)
	_ = binary.Write(h, binary.BigEndian, off)
	content := make([]byte, canarySize)
	_, _ = rand.NewChaCha8([32]byte(h.Sum(nil))).Read(content)
	return content
}

// plant writes the canaries, and makes sure that the disk has them: one that drops
// writes could not be verified.
func (e *eraser) plant(ctx context.Context, from int64) error {
	places := e.places(from)
	for _, off := range places {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if _, err := e.Device.WriteAt(e.canary(off), off); err != nil {
			return fmt.Errorf("prepare the verification: write at %d: %w", off, err)
		}
	}
	if err := e.settle(); err != nil {
		return err
	}
	got := make([]byte, canarySize)
	for _, off := range places {
		if _, err := e.Device.ReadAt(got, off); err != nil {
			return fmt.Errorf("prepare the verification: read at %d: %w", off, err)
		}
		if !bytes.Equal(got, e.canary(off)) {
			return fmt.Errorf("prepare the verification: the disk does not return what was written at %d", off)
		}
	}
	return nil
}

// verify reads the disk where canaries were, and says how many bytes it has read.
func (e *eraser) verify(ctx context.Context, m method) (int64, error) {
	if err := e.settle(); err != nil {
		return 0, err
	}
	got := make([]byte, canarySize)
	var verified int64
	for _, off := range e.places(0) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if _, err := e.Device.ReadAt(got, off); err != nil {
			return 0, fmt.Errorf("read back at %d: %w", off, err)
		}
		if m.zeroes && !block.IsZero(got) || bytes.Equal(got, e.canary(off)) {
			return 0, fmt.Errorf("%w: at byte %d", errStillThere, off)
		}
		verified += canarySize
	}
	return verified, nil
}

func (e *eraser) settle() error {
	if err := e.Device.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return e.Device.DropCache()
}
