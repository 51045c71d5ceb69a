// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/image"
)

// An image as large as the disk has its second partition table at the end, which firmware
// uses if the first is invalid. It must be written only after the checksum is verified.
func TestDiskEndIsWrittenLast(t *testing.T) {
	const size = 9 * mib
	raw := rawImage(size)
	copy(raw[size-33*512:], bytes.Repeat([]byte("EFI PART"), 33*64))
	for _, c := range []struct {
		name, disk string
		content    []byte
		of         []byte
		lieAt      int64
		err        error
	}{
		{name: "raw", disk: image.Raw, content: raw, of: raw},
		{name: "zstd", disk: image.Raw, content: compress(t, "zstd", raw), of: raw},
		{name: "qcow2", disk: image.Qcow2, content: agenttest.Qcow2{}.Image(t, raw), of: raw},
		{name: "large clusters", disk: image.Qcow2, content: agenttest.Qcow2{ClusterBits: 21, Deflate: true}.Image(t, raw), of: raw},
		{name: "raw, wrong checksum", disk: image.Raw, content: raw, err: image.ErrChecksum},
		{name: "qcow2, wrong checksum", disk: image.Qcow2, content: agenttest.Qcow2{}.Image(t, raw), err: image.ErrChecksum},
		{name: "a disk with wrong data there", disk: image.Raw, content: raw, of: raw, lieAt: size - 5, err: image.ErrReadBack},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := &agenttest.Images{Content: c.content}
			sum := server.Checksum()
			if errors.Is(c.err, image.ErrChecksum) {
				sum = (&agenttest.Images{Content: raw[1:]}).Checksum()
			}
			img, err := image.Open(t.Context(), request(server.Start(t)), image.Format{Checksum: sum, Disk: c.disk})
			if err != nil {
				t.Fatal(err)
			}
			defer img.Close()
			inner, path := oldDisk(t, size)
			last := int64(0)
			result, err := img.Write(t.Context(), &damaged{Device: inner, lieAt: c.lieAt}, image.Options{
				Reserved: reserved, OnWrite: func(n int64, _ int) { last = n },
			})
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err == nil && (result.Bytes != size || last != size) {
				t.Errorf("%d bytes, %d reported", result.Bytes, last)
			}
			if err == nil {
				compare(t, path, wanted(c.of, size))
			}
			if got, err := os.ReadFile(path); errors.Is(c.err, image.ErrChecksum) && (err != nil || !block.IsZero(got[size-mib:])) {
				t.Errorf("%v; the end of the disk holds what was not verified", err)
			}
		})
	}
}

// Reading thousands of tables counts as progress.
func TestTablesAreReported(t *testing.T) {
	raw := rawImage(9 * mib)
	server := &agenttest.Images{Content: agenttest.Qcow2{ClusterBits: 12}.Image(t, raw)}
	dev, _ := oldDisk(t, 12*mib)
	var reported []int64
	wrote := false
	_, err := writeAs(t, dev, server, image.Qcow2, image.Options{
		OnTables: func(n int64) {
			if len(reported) > 0 && n <= reported[len(reported)-1] || wrote {
				t.Errorf("%d bytes after %v, written: %t", n, reported, wrote)
			}
			reported = append(reported, n)
		},
		OnWrite: func(int64, int) { wrote = true },
	})
	// A first table of 5 entries and 5 second-level tables.
	if want := int64(5*8 + 5*4096); err != nil || len(reported) != 6 || reported[5] != want {
		t.Errorf("%v, reported %v, want %d at last", err, reported, want)
	}
}

// Holes of every size are zeroed, small ones during the download and others after it.
func TestHolesOfAllSizesAreZeroed(t *testing.T) {
	raw := rawImage(60 * mib)
	clear(raw[9*mib : 12*mib]) // small
	clear(raw[13*mib : 40*mib])
	clear(raw[41*mib : 57*mib]) // the largest small one
	for _, c := range []struct {
		name    string
		layout  agenttest.Qcow2
		noRange bool
	}{
		{name: "tables first"},
		{name: "compressed", layout: agenttest.Qcow2{Deflate: true}},
		{name: "one pass", noRange: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := &agenttest.Images{Content: c.layout.Image(t, raw), NoRange: c.noRange}
			dev, path := oldDisk(t, 64*mib)
			result, err := writeAs(t, dev, server, image.Qcow2, image.Options{})
			if err != nil || result.Bytes != int64(len(raw)) {
				t.Fatalf("%+v, %v", result, err)
			}
			compare(t, path, wanted(raw, 64*mib))
		})
	}
}
