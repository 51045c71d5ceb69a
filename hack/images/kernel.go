// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ingot-metal/ingot/hack/debian"
)

// kernelPackage is a Debian kernel package in the cache.
type kernelPackage struct {
	deb string
	// release is the version of the kernel, as in uname -r.
	release string
}

// fetchKernel downloads the kernel package of a meta package.
func fetchKernel(ctx context.Context, c *debian.Cache, meta string) (*kernelPackage, error) {
	out, err := debian.Run(ctx, "", "apt-cache", "depends", "--no-recommends", "--no-suggests", meta)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", meta, err)
	}
	name := parseKernelDependency(out)
	if name == "" {
		return nil, fmt.Errorf("look up %s: it depends on no kernel", meta)
	}
	deb, err := debian.Download(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return &kernelPackage{deb: deb, release: strings.TrimPrefix(name, "linux-image-")}, nil
}

// unpack extracts the package to dir, with boot/vmlinuz-<release> and the modules.
func (k *kernelPackage) unpack(ctx context.Context, dir string) error {
	_, err := debian.Run(ctx, "", "dpkg-deb", "-x", k.deb, dir)
	return err
}

// modules returns the directory of the modules in the unpacked package, which is below /usr since
// Debian 13.
func (k *kernelPackage) modules(tree string) string {
	merged := filepath.Join(tree, "usr", "lib", "modules", k.release)
	if _, err := os.Stat(merged); err == nil {
		return merged
	}
	return filepath.Join(tree, "lib", "modules", k.release)
}

// writeLicense copies the copyright file of the unpacked package in tree to dir, and writes the
// source packages to the file source.
func (k *kernelPackage) writeLicense(ctx context.Context, tree, dir string) error {
	from := filepath.Join(tree, "usr", "share", "doc", "linux-image-"+k.release, "copyright")
	if err := copyFile(filepath.Join(dir, "copyright"), from); err != nil {
		return err
	}
	control, err := debian.Run(ctx, "", "dpkg-deb", "--field", k.deb)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "source"), []byte(kernelSource(control)), 0o644)
}

// kernelSource returns the source packages in the control paragraph of a kernel package: the
// kernel's, which has the same version, and the one that signs it.
func kernelSource(control string) string {
	return fmt.Sprintf("Debian source packages linux %s and %s\n", debian.ControlField(control, "Version"), debian.ControlField(control, "Source"))
}

func parseKernelDependency(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			return "linux-image-" + name
		}
	}
	return ""
}
