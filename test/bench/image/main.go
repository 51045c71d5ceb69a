// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command image compares the agent's way of an image to a disk with the tools that a
// person would take: "curl | zstd -d | dd" and "qemu-img convert", on the same file and
// the same file-backed disk. Ours verifies the checksum and reads samples back; theirs
// do not. Beside qemu-img, which has the file on its own disk, ours reads that file too;
// lines with "-over-http" are for ours with a server on the same cores, those with
// "-fetched" for what it takes qemu-img to do the same, and those with "-checksum-alone"
// for a program that makes the sum and nothing else. It prints a line
// "bench: NAME ratio R bar 0.90" each, of the medians ("bar none" where it is told and not
// judged), and fails on an error only, never on time.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/image"
	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/test/bench"
)

// bar is the share of their speed that ours is to have (design, section 11).
const bar = 0.9

func main() {
	size := flag.Int64("size", 1024, "size of the disk in the image, in MiB")
	rounds := flag.Int("rounds", 5, "how often each is measured")
	only := flag.String("only", "", "measure what has this in its name")
	dir := flag.String("dir", "", "where images and disks lie; a new directory when empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, bencher{size: *size << 20, rounds: *rounds, only: *only}); err != nil {
		fmt.Fprintln(os.Stderr, "bench-image:", err)
		os.Exit(1)
	}
}

// run makes the images, serves them, and measures them.
func run(ctx context.Context, parent string, b bencher) (err error) {
	dir, err := os.MkdirTemp(parent, "bench-image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := makeImages(ctx, dir, b); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { _ = server.Close(); <-served }()
	b.url, b.dir = "http://"+listener.Addr().String()+"/", dir
	for _, f := range files {
		for _, w := range f.wanted(b.only) {
			if err := b.compare(ctx, f, w); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return nil
}

type bencher struct {
	url, dir string
	size     int64
	rounds   int
	only     string
}

// compare measures one file in rounds, ours and theirs in turn, and checks once that
// both disks hold the same.
func (b bencher) compare(ctx context.Context, f file, w way) error {
	sum, err := sumOf(filepath.Join(b.dir, f.name), -1)
	if err != nil {
		return err
	}
	c := bench.Comparison{Name: f.bench + w.suffix, Unit: "MiB/s", Bar: bar}
	if w.told {
		c.Bar = 0
	}
	for round := range b.rounds {
		ours, err := b.measure("ours", func(disk string) error { return b.ours(ctx, f, w.ours, sum, disk) })
		if err != nil {
			return err
		}
		theirs, err := b.measure("theirs", func(disk string) error { return b.theirs(ctx, f, w.theirs, disk) })
		if err != nil {
			return err
		}
		c.Ours, c.Theirs = append(c.Ours, ours), append(c.Theirs, theirs)
		if round == 0 && w.ours != checksum {
			if err := b.same("ours", "theirs"); err != nil {
				return err
			}
		}
	}
	c.Write(os.Stdout)
	return nil
}

// slack is room behind the image, where the agent clears the end of the disk.
const slack = 4 << 20

// measure returns MiB of disk a second.
func (b bencher) measure(name string, do func(disk string) error) (float64, error) {
	disk := filepath.Join(b.dir, name)
	if err := os.RemoveAll(disk); err != nil {
		return 0, err
	}
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		return 0, err
	}
	if err := os.Truncate(disk, b.size+slack); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := do(disk); err != nil {
		return 0, err
	}
	return float64(b.size>>20) / time.Since(began).Seconds(), nil
}

func (b bencher) ours(ctx context.Context, f file, how reader, sum, disk string) error {
	if how == checksum {
		_, err := sumOf(filepath.Join(b.dir, f.name), -1)
		return err
	}
	transport := http.RoundTripper(&http.Transport{DisableCompression: true})
	if how == fromFile {
		transport = local{b.dir}
	}
	img, err := image.Open(ctx, image.Request{Client: &http.Client{Transport: transport}, URL: b.url + f.name},
		image.Format{Checksum: "sha256:" + sum, Disk: f.format})
	if err != nil {
		return err
	}
	defer img.Close()
	dev, err := block.OpenSteadyFile(disk)
	if err != nil {
		return err
	}
	_, err = img.Write(ctx, dev, image.Options{Reserved: image.Range{Off: agentapi.MarkerOffset, Len: agentapi.MarkerSize}})
	return errors.Join(err, dev.Close())
}

func (b bencher) theirs(ctx context.Context, f file, line, disk string) error {
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
	cmd.Env = append(os.Environ(), "URL="+b.url+f.name, "FILE="+filepath.Join(b.dir, f.name), "DISK="+disk)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, out)
	}
	return nil
}

// same compares the disks as far as the image goes.
func (b bencher) same(one, other string) error {
	var sums []string
	for _, name := range []string{one, other} {
		sum, err := sumOf(filepath.Join(b.dir, name), b.size)
		if err != nil {
			return err
		}
		sums = append(sums, sum)
	}
	if sums[0] != sums[1] {
		return errors.New("the two disks differ")
	}
	return nil
}

// sumOf is the SHA-256 of a file, or of its first n bytes.
func sumOf(path string, n int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	var from io.Reader = f
	if n >= 0 {
		from = io.LimitReader(f, n)
	}
	h := sha256.New()
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{from}, make([]byte, 256<<10)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
