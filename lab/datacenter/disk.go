// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacenter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

// DiskState is the visible state of a disk.
type DiskState struct {
	// Marker is Ingot's marker; may be nil.
	Marker *agentapi.Marker
	// PartitionTable means that the first two sectors are not empty.
	PartitionTable bool
}

// partitionSectors is the size of MBR and GPT header, in bytes.
const partitionSectors = 1024

// Disk returns the state of the server's disk, even while the server runs.
func (s *Server) Disk() (DiskState, error) {
	if s.DiskPath == "" {
		return DiskState{}, nil
	}
	f, err := os.Open(s.DiskPath)
	if err != nil {
		return DiskState{}, err
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, partitionSectors)
	if _, err := f.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return DiskState{}, fmt.Errorf("disk of %s: %w", s.Spec.Name, err)
	}
	state := DiskState{PartitionTable: len(bytes.Trim(head, "\x00")) > 0}
	if state.Marker, err = marker.Read(f); err != nil {
		return DiskState{}, fmt.Errorf("disk of %s: %w", s.Spec.Name, err)
	}
	return state, nil
}
