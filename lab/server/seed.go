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

// The seed of a simulated disk lies near its end, where an image is not
// expected to reach: 8 bytes of length, big-endian, and JSON. So what a search
// for secrets finds on the disk is what the disk holds. It is in the last MiB, which a
// cleaning of metadata removes, as it does the table of the partitions by which a seed
// would be found; behind it a software RAID has room for its superblock, which the real
// agent writes.
const (
	raidArea = 64 << 10
	seedArea = 1<<20 - raidArea
	// minDisk has room for the marker, an image, the seed and a superblock.
	minDisk = 6 << 20
)

// seedAt is where the seed lies.
func (d *Disk) seedAt() int64 { return d.size - raidArea - seedArea }

// diskSeed is the NoCloud seed on a simulated disk.
type diskSeed struct {
	UserData   string `json:"userData"`
	MetaData   string `json:"metaData"`
	VendorData string `json:"vendorData"`
	// NetworkConfig is cloud-init's network configuration; empty: none.
	NetworkConfig string    `json:"networkConfig,omitempty"`
	WrittenAt     time.Time `json:"writtenAt"`
	// BootedInstance is the instance-id whose first boot is over.
	BootedInstance string `json:"bootedInstance,omitempty"`
}

// errNoSeed reports a disk without a seed.
var errNoSeed = errors.New("disk has no seed")

// writeSeed replaces the seed; nothing of an older one is left.
func (d *Disk) writeSeed(ctx context.Context, seed diskSeed) (err error) {
	body, err := json.Marshal(seed)
	if err != nil {
		return err
	}
	if len(body) > seedArea-8 {
		return fmt.Errorf("seed of %d bytes is larger than a simulated disk has room for", len(body))
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

// metaData reads the keys of the first level of a YAML mapping of scalars, which
// is what meta-data is.
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

// vendorVariables reads the assignments INGOT_…= that stand on lines of their own
// in vendor-data, a shell script.
func vendorVariables(text string) map[string]string {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && strings.HasPrefix(name, "INGOT_") && !strings.ContainsAny(name, " \t$\"'") {
			// The first assignment is the script's own; later ones stand in what it writes.
			if _, seen := values[name]; !seen {
				values[name] = unquote(value)
			}
		}
	}
	return values
}

// unquote removes the quotes of the shell or of YAML around a whole value.
func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}
