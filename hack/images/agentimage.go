// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"

	"github.com/ingot-metal/ingot/hack/debian"
)

// agentPackage is the command that becomes /init.
const agentPackage = "github.com/ingot-metal/ingot/cmd/agent"

// agentKernel has drivers of virtual machines and of physical servers. The cloud kernel lacks the
// latter.
const agentKernel = "linux-image-amd64"

// buildAgentImage builds vmlinuz and initramfs.cpio.zst with the programs that firmware starts before
// them, and their copyright and source files. The key consists of the agent's binary, the packages and
// the modules.
func buildAgentImage(ctx context.Context, c *debian.Cache) error {
	start := time.Now()
	if err := debian.Need(map[string]string{"apt-get": "apt", "apt-cache": "apt", "dpkg-deb": "dpkg", "go": "golang"}); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "ingot-agent-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, "init")
	if err := buildAgent(ctx, binary); err != nil {
		return err
	}
	sum, err := debian.SHA256File(binary)
	if err != nil {
		return err
	}
	kernel, err := fetchKernel(ctx, c, agentKernel)
	if err != nil {
		return err
	}
	programs, err := fetchPrograms(ctx, c)
	if err != nil {
		return err
	}
	key := debian.Key("agent-image 6", sum, filepath.Base(kernel.deb), strings.Join(baseNames(programs), " "), strings.Join(agentModules, " "), fmt.Sprint(alongside))
	dir, err := c.Result("agent", key, func(dir string) error {
		if err := assemblePrograms(ctx, programs, work, dir); err != nil {
			return err
		}
		return assembleAgent(ctx, kernel, work, dir)
	})
	if err != nil {
		return err
	}
	fmt.Printf("agent image: %s (kernel %s, %.0f s)\n", dir, kernel.release, time.Since(start).Seconds())
	for _, name := range []string{"vmlinuz", "initramfs.cpio.zst"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		fmt.Printf("%-18s %5.1f MiB\n", name, float64(info.Size())/(1<<20))
	}
	return nil
}

// agentVersion returns the version of the agent, which a release sets.
func agentVersion() string { return cmp.Or(os.Getenv("INGOT_VERSION"), "dev") }

// buildAgent builds a reproducible static binary.
func buildAgent(ctx context.Context, output string) error {
	_, err := debian.RunGo(ctx, "", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+agentVersion(), "-o", output, agentPackage)
	if err != nil {
		return fmt.Errorf("build the agent: %w", err)
	}
	return nil
}

func assembleAgent(ctx context.Context, kernel *kernelPackage, work, dir string) error {
	tree := filepath.Join(work, "kernel")
	if err := kernel.unpack(ctx, tree); err != nil {
		return err
	}
	modules, err := selectModules(kernel.modules(tree), agentModules)
	if err != nil {
		return err
	}
	if err := copyFile(filepath.Join(dir, "vmlinuz"), filepath.Join(tree, "boot", "vmlinuz-"+kernel.release)); err != nil {
		return err
	}
	if err := kernel.writeLicense(ctx, tree, dir); err != nil {
		return fmt.Errorf("write the license of the kernel: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "version"), []byte(agentVersion()+"\n"), 0o644); err != nil {
		return err
	}
	records, err := initramfs(filepath.Join(work, "init"), modules)
	if err != nil {
		return err
	}
	size, err := writeInitramfs(filepath.Join(dir, "initramfs.cpio.zst"), records)
	if err != nil {
		return err
	}
	fmt.Printf("initramfs: %d modules, %.1f MiB unpacked\n", len(modules.modules), float64(size)/(1<<20))
	return nil
}

// initramfs lists the archive: /init, /modules, and the files that the kernel needs before /init
// mounts anything.
func initramfs(binary string, modules *moduleSet) ([]cpio.Record, error) {
	init, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	records := []cpio.Record{
		cpio.Directory("dev", 0o755), cpio.Directory("etc", 0o755), cpio.Directory("modules", 0o755),
		cpio.Directory("proc", 0o755), cpio.Directory("run", 0o755), cpio.Directory("sys", 0o755),
		cpio.Directory("tmp", 0o1777),
		cpio.CharDev("dev/console", 0o600, 5, 1),
		cpio.StaticFile("init", string(init), 0o755),
		cpio.StaticFile("modules/order", modules.order, 0o644),
		cpio.StaticFile("modules/alias", modules.alias, 0o644),
	}
	for _, m := range modules.modules {
		data, err := readPlain(m.path)
		if err != nil {
			return nil, err
		}
		records = append(records, cpio.StaticFile("modules/"+m.name+".ko", string(data), 0o644))
	}
	cpio.MakeAllReproducible(records)
	return records, nil
}

// writeInitramfs returns the size of the archive before compression.
func writeInitramfs(path string, records []cpio.Record) (int64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	// The kernel's decoder supports windows of up to 8 MiB. A single worker makes the output
	// reproducible.
	enc, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedBestCompression),
		zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return 0, err
	}
	counted := &countingWriter{to: enc}
	w := cpio.Newc.Writer(counted)
	for _, r := range records {
		if err := w.WriteRecord(r); err != nil {
			return 0, fmt.Errorf("write %s into the initramfs: %w", r.Name, err)
		}
	}
	if err := cpio.WriteTrailer(w); err != nil {
		return 0, err
	}
	return counted.n, errors.Join(enc.Close(), f.Close())
}

type countingWriter struct {
	to io.Writer
	n  int64
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.to.Write(b)
	w.n += int64(n)
	return n, err
}

func copyFile(dst, src string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(dst)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
