// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// aptSource is one Debian repository that the machine itself uses.
type aptSource struct{ uri, suite, component string }

// aptSources asks apt for the Debian repositories of this machine, so that no
// mirror is named here. Other vendors' repositories are left out.
func aptSources(ctx context.Context) ([]aptSource, error) {
	out, err := tool(ctx, "", "apt-get", "indextargets", "--format",
		"$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages")
	if err != nil {
		return nil, fmt.Errorf("list the apt sources: %w", err)
	}
	sources := parseIndexTargets(out)
	if len(sources) == 0 {
		return nil, fmt.Errorf("apt knows no Debian repository: run apt-get update as root, or add one to its sources")
	}
	return sources, nil
}

func parseIndexTargets(out string) []aptSource {
	var sources []aptSource
	seen := map[aptSource]bool{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 4 || f[0] != "Debian" || f[3] != "main" {
			continue
		}
		s := aptSource{uri: f[1], suite: f[2], component: f[3]}
		if !seen[s] {
			seen[s] = true
			sources = append(sources, s)
		}
	}
	return sources
}

// suite is the code name of the release: the suite without a suffix.
func suite(sources []aptSource) string {
	for _, s := range sources {
		if !strings.ContainsAny(s.suite, "-/") {
			return s.suite
		}
	}
	return sources[0].suite
}

func sourcesList(sources []aptSource) string {
	var b strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&b, "deb %s %s %s\n", s.uri, s.suite, s.component)
	}
	return b.String()
}

// kernelPackage is a Debian kernel package in the cache.
type kernelPackage struct {
	deb string
	// release is the kernel's own version, as uname -r gives it.
	release string
}

// fetchKernel downloads the package that the given meta package depends on.
func fetchKernel(ctx context.Context, c *cache, meta string) (*kernelPackage, error) {
	out, err := tool(ctx, "", "apt-cache", "depends", "--no-recommends", "--no-suggests", meta)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", meta, err)
	}
	name := parseKernelDependency(out)
	if name == "" {
		return nil, fmt.Errorf("look up %s: it depends on no kernel", meta)
	}
	deb, err := download(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return &kernelPackage{deb: deb, release: strings.TrimPrefix(name, "linux-image-")}, nil
}

// unpack puts the package's files below dir: boot/vmlinuz-<release> and
// lib/modules/<release> are what is wanted.
func (k *kernelPackage) unpack(ctx context.Context, dir string) error {
	_, err := tool(ctx, "", "dpkg-deb", "-x", k.deb, dir)
	return err
}

// writeLicence puts the package's copyright file into dir, and the file source,
// which says what it was built from. Tree is the unpacked package.
func (k *kernelPackage) writeLicence(ctx context.Context, tree, dir string) error {
	from := filepath.Join(tree, "usr", "share", "doc", "linux-image-"+k.release, "copyright")
	if err := copyFile(filepath.Join(dir, "copyright"), from); err != nil {
		return err
	}
	control, err := tool(ctx, "", "dpkg-deb", "--field", k.deb)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "source"), []byte(kernelSource(control)), 0o644)
}

// kernelSource names the source packages of a kernel package by its control
// paragraph: the kernel's own, which has the same version, and the one that
// signs it.
func kernelSource(control string) string {
	return fmt.Sprintf("Debian source packages linux %s and %s\n", controlField(control, "Version"), controlField(control, "Source"))
}

func parseKernelDependency(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: linux-image-"); ok {
			return "linux-image-" + name
		}
	}
	return ""
}

// download puts the current version of a package into the cache. Apt checks its
// signature and checksum.
func download(ctx context.Context, c *cache, pkg string) (string, error) {
	out, err := tool(ctx, "", "apt-cache", "show", "--no-all-versions", pkg)
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", pkg, err)
	}
	sum := controlField(out, "SHA256")
	if sum == "" {
		return "", fmt.Errorf("look up %s: apt gives no checksum", pkg)
	}
	dir := filepath.Join(c.root, "debs", sum)
	if found := debIn(dir); found != "" {
		return found, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if _, err := tool(ctx, dir, "apt-get", "download", pkg); err != nil {
		return "", fmt.Errorf("download %s: %w", pkg, err)
	}
	if found := debIn(dir); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("download %s: apt-get left no package", pkg)
}

func debIn(dir string) string {
	found, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// controlField reads one field of a Debian control paragraph.
func controlField(paragraph, field string) string {
	for line := range strings.Lines(paragraph) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
