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
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/agent/image"
	"github.com/ingot-metal/ingot/agentapi"
)

// file is one form of the image.
type file struct {
	name, bench, format string
	// made says how it is made of the raw image.
	made []string
	// ways are how it is brought to a disk, by us and by others.
	ways []way
}

// way is one comparison.
type way struct {
	// suffix of the bench's name.
	suffix string
	ours   reader
	// theirs is a line for bash, with $URL, $FILE and $DISK.
	theirs string
	// told: it is measured and not judged.
	told bool
}

// reader is what ours does.
type reader int

const (
	// overHTTP is what the agent does. The server runs on the same cores.
	overHTTP reader = iota
	// fromFile is the same with the file for a source, as qemu-img has it.
	fromFile
	// checksum only reads the file and makes its sum: nobody who verifies is faster.
	checksum
)

// qemu-img reads no stream. convert has the file on its own disk and does not verify
// it; fetched is what has to be done for what ours does.
const (
	convert = `qemu-img convert -n -t writeback -f qcow2 -O raw -m 8 -W "$FILE" "$DISK"`
	fetched = `curl -sSf "$URL" -o "$DISK.fetched" && sha256sum "$DISK.fetched" && ` +
		`qemu-img convert -n -t writeback -f qcow2 -O raw -m 8 -W "$DISK.fetched" "$DISK" && rm "$DISK.fetched"`
)

// qcow2Ways: the same file on the same disk is what is judged. The others tell what of
// the difference is the checksum's, and what that of a server on the same cores.
var qcow2Ways = []way{
	{ours: fromFile, theirs: convert},
	{suffix: "-checksum-alone", ours: checksum, theirs: convert, told: true},
	{suffix: "-over-http", ours: overHTTP, theirs: convert, told: true},
	{suffix: "-fetched", ours: overHTTP, theirs: fetched, told: true},
}

var files = []file{
	{
		name: "disk.raw.zst", bench: "image-zstd", format: image.Raw,
		made: []string{"zstd", "-q", "-T0", "disk.raw", "-o", "disk.raw.zst"},
		ways: []way{{ours: overHTTP, theirs: `curl -sSf "$URL" | zstd -q -d | dd of="$DISK" bs=4M conv=notrunc,fsync status=none`}},
	},
	{
		name: "disk.qcow2", bench: "image-qcow2", format: image.Qcow2, ways: qcow2Ways,
		made: []string{"qemu-img", "convert", "-f", "raw", "-O", "qcow2", "disk.raw", "disk.qcow2"},
	},
	{
		name: "disk-c.qcow2", bench: "image-qcow2-deflate", format: image.Qcow2, ways: qcow2Ways,
		made: []string{"qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "disk.raw", "disk-c.qcow2"},
	},
	{
		name: "disk-z.qcow2", bench: "image-qcow2-zstd", format: image.Qcow2, ways: qcow2Ways,
		made: []string{"qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "-o", "compression_type=zstd", "disk.raw", "disk-z.qcow2"},
	},
}

// wanted are the ways of a file with a part in the bench's name.
func (f file) wanted(part string) []way {
	return slices.DeleteFunc(slices.Clone(f.ways), func(w way) bool { return !strings.Contains(f.bench+w.suffix, part) })
}

// makeImages writes a disk and those of its other forms that are wanted.
func makeImages(ctx context.Context, dir string, b bencher) error {
	if err := writeDisk(filepath.Join(dir, "disk.raw"), b.size); err != nil {
		return err
	}
	for _, f := range files {
		if len(f.wanted(b.only)) == 0 {
			continue
		}
		cmd := exec.CommandContext(ctx, f.made[0], f.made[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", f.made, err, out)
		}
	}
	return nil
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
