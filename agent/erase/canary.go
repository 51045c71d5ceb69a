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
	// canarySize is a multiple of every disk's sector size.
	canarySize = 4096
	// canaries is the number of canaries, spread evenly from the start to the end of the disk.
	canaries = 1024
	// The journal and the marker at the end of the first MiB stay until the end: they record
	// the state of the work and the owner of the disk (I8).
	reservedFrom = JournalOffset
	reservedTo   = agentapi.MarkerOffset + agentapi.MarkerSize
)

// errStillThere reports that the disk shows its old content after an erasure.
var errStillThere = errors.New("the disk still has its old content")

// places returns the offsets of the canaries at or after from. A small disk has fewer.
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

// canary returns the content of a canary. It is pseudorandom and the same for each run on one
// disk, so that a run recognizes the canaries of an earlier run.
func (e *eraser) canary(off int64) []byte {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "ingot canary\x00%s\x00%s\x00%d\x00", e.Target.Disk.Serial, e.Target.Disk.WWN, e.size)
	_ = binary.Write(h, binary.BigEndian, off)
	content := make([]byte, canarySize)
	_, _ = rand.NewChaCha8([32]byte(h.Sum(nil))).Read(content)
	return content
}

// plant writes the canaries and reads them back. A disk that drops writes could not be
// verified.
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
	if err := block.Flush(e.Device); err != nil {
		return err
	}
	got := make([]byte, canarySize)
	for _, off := range places {
		if _, err := e.Device.ReadAt(got, off); err != nil {
			return fmt.Errorf("prepare the verification: read at %d: %w", off, err)
		}
		if !bytes.Equal(got, e.canary(off)) {
			return fmt.Errorf("prepare the verification: the disk does not return the data written at %d", off)
		}
	}
	return nil
}

// verify reads the places of the canaries and returns the number of bytes read.
func (e *eraser) verify(ctx context.Context, m method) (int64, error) {
	if err := block.Flush(e.Device); err != nil {
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
			return 0, fmt.Errorf("%w at byte %d", errStillThere, off)
		}
		verified += canarySize
	}
	return verified, nil
}
