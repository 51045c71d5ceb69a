// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package marker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ingot-metal/ingot/agentapi"
)

const (
	magic    = "ingot-marker-1 "
	sumSize  = 16
	maxBytes = 512
)

// ErrDamaged reports a marker that cannot be parsed: the owner of the disk is unknown, unlike
// on a disk without a marker.
var ErrDamaged = errors.New("disk has a damaged ingot marker")

// DamagedError is the ErrDamaged of one disk.
type DamagedError struct {
	// Name stands for the unknown owner and depends on the damaged content.
	Name string
}

func (e *DamagedError) Error() string { return ErrDamaged.Error() + ": " + e.Name }

// Is makes the error match ErrDamaged.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }

// Parse parses the bytes at agentapi.MarkerOffset. It returns nil if there is no marker, and
// ErrDamaged if it is invalid.
func Parse(b []byte) (*agentapi.Marker, error) {
	rest, found := bytes.CutPrefix(b, []byte(magic))
	if !found {
		return nil, nil
	}
	line, _, ended := bytes.Cut(rest[:min(len(rest), maxBytes)], []byte("\n"))
	if !ended || len(line) < sumSize+1 || line[sumSize] != ' ' {
		return nil, ErrDamaged
	}
	body := line[sumSize+1:]
	if sum(body) != string(line[:sumSize]) {
		return nil, ErrDamaged
	}
	var m agentapi.Marker
	if err := json.Unmarshal(body, &m); err != nil || m.InstanceID == "" {
		return nil, ErrDamaged
	}
	return &m, nil
}

// Format is the inverse of Parse and returns agentapi.MarkerSize bytes. It fails if the
// instance name is empty or too long for one sector.
func Format(m agentapi.Marker) ([]byte, error) {
	if m.InstanceID == "" {
		return nil, errors.New("encode the marker: no instance")
	}
	body, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode the marker: %w", err)
	}
	line := magic + sum(body) + " " + string(body) + "\n"
	if len(line) > maxBytes {
		return nil, fmt.Errorf("encode the marker of instance %.64q…: longer than a sector", m.InstanceID)
	}
	out := make([]byte, agentapi.MarkerSize)
	copy(out, line)
	return out, nil
}

// Read reads the marker of a disk. It returns nil for a disk without one, or too small for
// one, and a DamagedError for a damaged one.
func Read(disk io.ReaderAt) (*agentapi.Marker, error) {
	buf := make([]byte, agentapi.MarkerSize)
	if _, err := disk.ReadAt(buf, agentapi.MarkerOffset); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, fmt.Errorf("read the marker: %w", err)
	}
	m, err := Parse(buf)
	if errors.Is(err, ErrDamaged) {
		return nil, &DamagedError{Name: agentapi.DamagedMarker + sum(buf)}
	}
	return m, err
}

type Disk interface {
	io.WriterAt
	Sync() error
}

// Write writes the marker and returns when it is durable.
func Write(disk Disk, m agentapi.Marker) error {
	b, err := Format(m)
	if err != nil {
		return err
	}
	if _, err := disk.WriteAt(b, agentapi.MarkerOffset); err != nil {
		return fmt.Errorf("write the marker: %w", err)
	}
	if err := disk.Sync(); err != nil {
		return fmt.Errorf("sync the marker: %w", err)
	}
	return nil
}

func sum(body []byte) string {
	h := sha256.Sum256(body)
	return hex.EncodeToString(h[:])[:sumSize]
}
