// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/ingot-metal/ingot/agent/image"
	"github.com/ingot-metal/ingot/agentapi"
)

// file is one form of the image, and how others bring it to $DISK.
type file struct {
	name, bench, format string
	// made says how it is made of the raw image; nil: it is there already.
	made []string
	// theirs is a line for bash, with $URL, $FILE and $DISK.
	theirs string
	// told: it is measured and not judged.
	told bool
}

// qemu-img reads no stream. convert has the file on its own disk and does not verify
// it; fetched is what has to be done for what ours does.
const (
	convert = `qemu-img convert -n -t writeback -f qcow2 -O raw -m 8 -W "$FILE" "$DISK"`
	fetched = `curl -sSf "$URL" -o "$DISK.fetched" && sha256sum "$DISK.fetched" && ` +
		`qemu-img convert -n -t writeback -f qcow2 -O raw -m 8 -W "$DISK.fetched" "$DISK" && rm "$DISK.fetched"`
)

var files = []file{
	{
		name: "disk.raw.zst", bench: "image-zstd", format: image.Raw,
		made:   []string{"zstd", "-q", "-T0", "disk.raw", "-o", "disk.raw.zst"},
		theirs: `curl -sSf "$URL" | zstd -q -d | dd of="$DISK" bs=4M conv=notrunc,fsync status=none`,
	},
	{
		name: "disk.qcow2", bench: "image-qcow2", format: image.Qcow2, theirs: convert,
		made: []string{"qemu-img", "convert", "-f", "raw", "-O", "qcow2", "disk.raw", "disk.qcow2"},
	},
	{name: "disk.qcow2", bench: "image-qcow2-fetched", format: image.Qcow2, theirs: fetched, told: true},
	{
		name: "disk-c.qcow2", bench: "image-qcow2-deflate", format: image.Qcow2, theirs: convert,
		made: []string{"qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "disk.raw", "disk-c.qcow2"},
	},
	{name: "disk-c.qcow2", bench: "image-qcow2-deflate-fetched", format: image.Qcow2, theirs: fetched, told: true},
	{
		name: "disk-z.qcow2", bench: "image-qcow2-zstd", format: image.Qcow2, theirs: convert,
		made: []string{"qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "-o", "compression_type=zstd", "disk.raw", "disk-z.qcow2"},
	},
	{name: "disk-z.qcow2", bench: "image-qcow2-zstd-fetched", format: image.Qcow2, theirs: fetched, told: true},
}

// makeImages writes a disk and its other forms.
func makeImages(ctx context.Context, dir string, size int64) ([]file, error) {
	if err := writeDisk(filepath.Join(dir, "disk.raw"), size); err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.made == nil {
			continue
		}
		cmd := exec.CommandContext(ctx, f.made[0], f.made[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%v: %w: %s", f.made, err, out)
		}
	}
	return files, nil
}

// writeDisk makes what a system's disk is like: of each 16 MiB 6 are free, 7 hold
// text and programs, which compress to a third or so, and 3 what is compressed already.
func writeDisk(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewChaCha8([32]byte{4}))
	words := make([][]byte, 4096)
	for i := range words {
		words[i] = make([]byte, 3+r.IntN(9))
		for j := range words[i] {
			words[i][j] = byte(r.IntN(256))
		}
	}
	piece := make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(piece)) {
		switch kind := off >> 20 % 16; {
		case kind < 3:
			for i := range piece {
				piece[i] = byte(r.Uint32())
			}
		case kind < 10:
			for i := 0; i < len(piece); {
				i += copy(piece[i:], words[int(r.ExpFloat64()*200)%len(words)])
			}
		default:
			clear(piece)
		}
		if off == 0 { // where the agent keeps its marker, images have nothing
			clear(piece[agentapi.MarkerOffset:])
		}
		if _, err := w.Write(piece); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Flush(), f.Close())
}
