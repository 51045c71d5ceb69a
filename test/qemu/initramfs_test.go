// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// agentFile is the path of a result of `make agent-image`.
func agentFile(t *testing.T, name string) string {
	t.Helper()
	cache := os.Getenv("INGOT_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(base, "ingot")
	}
	path := filepath.Join(cache, "images", "agent", "current", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run `make agent-image`", err)
	}
	return path
}

// proofInitramfs builds an initramfs with testdata/init as its only program.
func proofInitramfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "./testdata/init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build init: %v\n%s", err, out)
	}
	program, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	const charDevice, directory, executable = 0o020600, 0o040755, 0o100755
	writeEntry(&b, entry{name: "dev", mode: directory})
	writeEntry(&b, entry{name: "dev/console", mode: charDevice, major: 5, minor: 1})
	writeEntry(&b, entry{name: "init", mode: executable, data: program})
	writeEntry(&b, entry{name: "TRAILER!!!"})
	path := filepath.Join(dir, "proof.cpio")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type entry struct {
	name         string
	mode         int
	major, minor int
	data         []byte
}

// writeEntry appends an entry in the "newc" format of cpio (Linux,
// Documentation/driver-api/early-userspace/buffer-format.rst): thirteen
// numbers of eight hex digits, then name and data, each padded to four bytes.
func writeEntry(b *bytes.Buffer, e entry) {
	inode, links := b.Len()+1, 1
	fmt.Fprintf(b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		inode, e.mode, 0, 0, links, 0, len(e.data), 0, 0, e.major, e.minor, len(e.name)+1, 0)
	b.WriteString(e.name)
	b.WriteByte(0)
	pad(b)
	b.Write(e.data)
	pad(b)
}

func pad(b *bytes.Buffer) {
	for b.Len()%4 != 0 {
		b.WriteByte(0)
	}
}
