// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Source is a Debian repository of the machine's apt configuration.
type Source struct{ URI, Suite, Component string }

// Sources lists the Debian repositories of the machine's apt configuration, without those of other
// vendors.
func Sources(ctx context.Context) ([]Source, error) {
	out, err := Run(ctx, "", "apt-get", "indextargets", "--format",
		"$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages")
	if err != nil {
		return nil, fmt.Errorf("list the apt sources: %w", err)
	}
	sources := parseIndexTargets(out)
	if len(sources) == 0 {
		return nil, fmt.Errorf("list the apt sources: no Debian repository; run apt-get update as root, or add a repository")
	}
	return sources, nil
}

func parseIndexTargets(out string) []Source {
	var sources []Source
	seen := map[Source]bool{}
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 4 || f[0] != "Debian" || f[3] != "main" {
			continue
		}
		s := Source{URI: f[1], Suite: f[2], Component: f[3]}
		if !seen[s] {
			seen[s] = true
			sources = append(sources, s)
		}
	}
	return sources
}

// Suite returns the code name of the release: the suite without a suffix.
func Suite(sources []Source) string {
	for _, s := range sources {
		if !strings.ContainsAny(s.Suite, "-/") {
			return s.Suite
		}
	}
	return sources[0].Suite
}

func sourcesList(sources []Source) string {
	var b strings.Builder
	for _, s := range sources {
		fmt.Fprintf(&b, "deb %s %s %s\n", s.URI, s.Suite, s.Component)
	}
	return b.String()
}

// Download downloads the current version of a package into the cache. apt verifies its signature and
// checksum. A package is moved to the cache only when it is complete.
func Download(ctx context.Context, c *Cache, pkg string) (string, error) {
	out, err := Run(ctx, "", "apt-cache", "show", "--no-all-versions", pkg)
	if err != nil {
		return "", fmt.Errorf("look up %s: %w", pkg, err)
	}
	sum := ControlField(out, "SHA256")
	if sum == "" {
		return "", fmt.Errorf("look up %s: apt reports no checksum", pkg)
	}
	dir := filepath.Join(c.root, "debs", sum)
	if found := debIn(dir, sum); found != "" {
		return found, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), ".get-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if _, err := Run(ctx, work, "apt-get", "download", pkg); err != nil {
		return "", fmt.Errorf("download %s: %w", pkg, err)
	}
	got := debIn(work, sum)
	if got == "" {
		return "", fmt.Errorf("download %s: apt-get wrote no package with the checksum %s", pkg, sum)
	}
	// A concurrent download moves the same file, and an interrupted download is replaced.
	at := filepath.Join(dir, filepath.Base(got))
	if err := os.Rename(got, at); err != nil {
		return "", err
	}
	return at, nil
}

// debIn returns the package with a checksum in a directory, or "".
func debIn(dir, sum string) string {
	found, _ := filepath.Glob(filepath.Join(dir, "*.deb")) // the pattern is well-formed
	for _, path := range found {
		if got, err := SHA256File(path); err == nil && got == sum {
			return path
		}
	}
	return ""
}

// ControlField reads one field of a Debian control paragraph.
func ControlField(paragraph, field string) string {
	for line := range strings.Lines(paragraph) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
