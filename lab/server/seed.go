// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The seed of a simulated disk is stored near its end, beyond an image: 8 bytes of length,
// big-endian, and JSON. So a search of the disk for secrets finds what it contains. It is in the
// last MiB, which a metadata cleaning removes, like the partition table by which a real seed is
// found. The rest of that MiB is for the superblock of a software RAID, which the real agent
// writes.
const (
	raidArea = 64 << 10
	seedArea = 1<<20 - raidArea
	// minDisk is enough for the marker, an image, the seed and a superblock.
	minDisk = 6 << 20
)

// seedAt returns the offset of the seed.
func (d *Disk) seedAt() int64 { return d.size - raidArea - seedArea }

// diskSeed is the NoCloud seed on a simulated disk.
type diskSeed struct {
	UserData   string `json:"userData"`
	MetaData   string `json:"metaData"`
	VendorData string `json:"vendorData"`
	// NetworkConfig is cloud-init's network configuration; empty: none.
	NetworkConfig string    `json:"networkConfig,omitempty"`
	WrittenAt     time.Time `json:"writtenAt"`
	// BootedInstance is the instance-id after its first boot.
	BootedInstance string `json:"bootedInstance,omitempty"`
}

// errNoSeed reports a disk without a seed.
var errNoSeed = errors.New("disk has no seed")

// writeSeed replaces the whole seed area.
func (d *Disk) writeSeed(ctx context.Context, seed diskSeed) (err error) {
	body, err := json.Marshal(seed)
	if err != nil {
		return err
	}
	if len(body) > seedArea-8 {
		return fmt.Errorf("seed of %d bytes exceeds the area of a simulated disk", len(body))
	}
	area := make([]byte, seedArea)
	binary.BigEndian.PutUint64(area, uint64(len(body)))
	copy(area[8:], body)
	dev, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if _, err := dev.WriteAt(area, d.seedAt()); err != nil {
		return err
	}
	return dev.Sync()
}

func (d *Disk) readSeed(ctx context.Context) (seed diskSeed, err error) {
	dev, err := d.open(ctx)
	if err != nil {
		return diskSeed{}, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	area := make([]byte, seedArea)
	if _, err := dev.ReadAt(area, d.seedAt()); err != nil {
		return diskSeed{}, err
	}
	n := binary.BigEndian.Uint64(area)
	if n == 0 || n > seedArea-8 || json.Unmarshal(area[8:8+n], &seed) != nil {
		return diskSeed{}, errNoSeed
	}
	return seed, nil
}

// metaData returns the top-level scalars of meta-data, a YAML mapping.
func metaData(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if !ok || key == "" || strings.ContainsAny(key[:1], " \t#-") {
			continue
		}
		values[key] = unquote(strings.TrimSpace(value))
	}
	return values
}

// vendorVariables returns the assignments INGOT_…= on lines of their own in vendor-data, a shell
// script.
func vendorVariables(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && strings.HasPrefix(name, "INGOT_") && !strings.ContainsAny(name, " \t$\"'") {
			// Later assignments of a name are in files that the script writes.
			if _, seen := values[name]; !seen {
				values[name] = unquote(value)
			}
		}
	}
	return values
}

// unquote removes the shell or YAML quotes around a value.
func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}
