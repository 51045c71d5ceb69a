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

// DiskState is what an outsider can read off a disk.
type DiskState struct {
	// Marker of Ingot, nil where there is none.
	Marker *agentapi.Marker
	// PartitionTable: the first two sectors are not empty.
	PartitionTable bool
}

// partitionSectors is where MBR and GPT header lie, in bytes.
const partitionSectors = 1024

// Disk reads the state of the server's disk, also while the server runs.
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
