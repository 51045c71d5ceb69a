// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/image"
)

// sectored is a disk with a sector size; 0: unknown.
type sectored struct {
	block.Device
	size int
}

func (s sectored) SectorSize() int { return s.size }

// A partition table counts in sectors and is in the second one. A disk is not written with an
// image for another sector size.
func TestImageForAnotherSectorSizeIsRefused(t *testing.T) {
	const size = 12 * mib
	made := func(headers ...int) []byte {
		raw := rawImage(9 * mib)
		clear(raw[:8192])
		for _, at := range headers {
			copy(raw[at:], "EFI PART")
		}
		return raw
	}
	// mbr has one partition, from 1 MiB to the given end, in sectors of the given size.
	mbr := func(end, sector int) []byte {
		raw := made()
		raw[446+4] = 0x83
		binary.LittleEndian.PutUint32(raw[446+8:], uint32(mib/sector))
		binary.LittleEndian.PutUint32(raw[446+12:], uint32((end-mib)/sector))
		raw[510], raw[511] = 0x55, 0xaa
		return raw
	}
	for _, c := range []struct {
		name   string
		raw    []byte
		sector int
		err    error
	}{
		{name: "MBR for 512, on 512", raw: mbr(9*mib, 512), sector: 512},
		{name: "MBR for 4096, on 4096", raw: mbr(9*mib, 4096), sector: 4096},
		{name: "MBR for 512, on 4096", raw: mbr(9*mib, 512), sector: 4096, err: image.ErrSectors},
		{name: "for 512, on 512", raw: made(512), sector: 512},
		{name: "for 4096, on 4096", raw: made(4096), sector: 4096},
		{name: "for both", raw: made(512, 4096), sector: 4096},
		{name: "no such table", raw: made(), sector: 4096},
		{name: "unknown sector size", raw: made(512)},
		{name: "another sector size", raw: made(512), sector: 520},
		{name: "for 512, on 4096", raw: made(512), sector: 4096, err: image.ErrSectors},
		{name: "for 4096, on 512", raw: made(4096), sector: 512, err: image.ErrSectors},
	} {
		for _, form := range []struct {
			name, disk string
			content    []byte
		}{
			{"raw", image.Raw, c.raw},
			{"zstd", image.Raw, compress(t, "zstd", c.raw)},
			{"qcow2", image.Qcow2, agenttest.Qcow2{}.Image(t, c.raw)},
			{"small clusters", image.Qcow2, agenttest.Qcow2{ClusterBits: 9}.Image(t, c.raw)},
		} {
			t.Run(c.name+" "+form.name, func(t *testing.T) {
				dev, path := oldDisk(t, size)
				_, err := writeAs(t, sectored{dev, c.sector}, &agenttest.Images{Content: form.content}, form.disk, image.Options{})
				if !errors.Is(err, c.err) {
					t.Fatalf("error %v, want %v", err, c.err)
				}
				if c.err == nil {
					compare(t, path, wanted(c.raw, size))
					return
				}
				got, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if !block.IsZero(got[:reserved.Off]) {
					t.Error("the image's head was written")
				}
				old := bytes.Repeat([]byte{0xa5}, size-2*mib)
				// An MBR needs the size of the image, which this zstd stream does not state.
				early := form.disk == image.Raw && (form.name != "zstd" || c.raw[510] == 0)
				if early && !bytes.Equal(got[mib:size-mib], old) {
					t.Error("the image's body was written")
				}
			})
		}
	}
}
