// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/pxe/tftp"
)

// realClient is a Debian program that reads a file from host and port into a local file, with a
// block size if it is not 0.
type realClient struct {
	name, program string
	args          func(host, port, remote, local string, block int) []string
	// says is part of the client's output for a missing file.
	says string
}

var realClients = []realClient{
	{"tftp-hpa", "tftp", func(host, port, remote, local string, block int) []string {
		args := []string{"-m", "binary"}
		if block > 0 {
			args = append(args, "-B", fmt.Sprint(block)) // an option of Debian's newer versions
		}
		return append(args, host, port, "-c", "get", remote, local)
	}, "not found"},
	{"atftp", "atftp", func(host, port, remote, local string, block int) []string {
		args := []string{"--get", "-r", remote, "-l", local}
		if block > 0 {
			args = append(args, "--option", fmt.Sprintf("blksize %d", block), "--option", "tsize 0")
		}
		return append(args, host, port)
	}, "not found"},
	{"curl", "curl", func(host, port, remote, local string, block int) []string {
		args := []string{"-sS", "--max-time", "20", "-o", local}
		if block > 0 {
			args = append(args, "--tftp-blksize", fmt.Sprint(block))
		} else {
			args = append(args, "--tftp-no-options")
		}
		return append(args, "tftp://"+net.JoinHostPort(host, port)+"/"+remote)
	}, "(68)"}, // CURLE_TFTP_NOTFOUND
	{"busybox", "busybox", func(host, port, remote, local string, block int) []string {
		args := []string{"tftp", "-g", "-r", remote, "-l", local}
		if block > 0 {
			args = append(args, "-b", fmt.Sprint(block))
		}
		return append(args, host, port)
	}, "not found"},
}

// Common programs get files of every size, with both kinds of ports, and are refused missing
// files at once.
func TestRealClients(t *testing.T) {
	files := memory{"empty": nil, "small": random(100), "block": random(1468), "loader.efi": random(300_000)}
	for _, c := range realClients {
		if _, err := exec.LookPath(c.program); err != nil {
			t.Errorf("%s is missing: hack/packages.sh test brings it", c.program)
			continue
		}
		for _, single := range []bool{false, true} {
			for _, block := range []int{0, 1468, 8192} {
				if block > 0 && c.program == "tftp" {
					continue // Debian 12's has no such option
				}
				t.Run(fmt.Sprintf("%s, single port %t, blocks of %d", c.name, single, block), func(t *testing.T) {
					t.Parallel()
					addr, _ := startServer(t, tftp.Server{Files: files, SinglePort: single})
					for name, want := range files {
						if name == "empty" && (c.name == "atftp" || c.name == "curl") {
							continue // one leaves no file, the other takes a size of 0 for an error
						}
						local := filepath.Join(t.TempDir(), name)
						if out, err := runClient(t, c, addr, name, local, block); err != nil {
							t.Fatalf("%s: %v: %s", name, err, out)
						}
						got, err := os.ReadFile(local)
						if err != nil || !bytes.Equal(got, want) {
							t.Errorf("%s: %d bytes arrived as %d, %v", name, len(want), len(got), err)
						}
					}
					out, _ := runClient(t, c, addr, "missing", filepath.Join(t.TempDir(), "missing"), block)
					if !strings.Contains(strings.ToLower(out), strings.ToLower(c.says)) {
						t.Errorf("for a missing file it says %q, want %q", out, c.says)
					}
				})
			}
		}
	}
}

func runClient(t *testing.T, c realClient, addr, remote, local string, block int) (string, error) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, c.program, c.args(host, port, remote, local, block)...).CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s of %s hangs: %s", c.name, remote, out)
	}
	return string(out), err
}
