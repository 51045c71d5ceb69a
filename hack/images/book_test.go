// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// besides are the agent's modules that are not drivers of hardware: dependencies, file systems, and
// drivers of virtual machines.
var besides = []string{"virtio_pci", "virtio_rng", "mlx4_core", "realtek", "sd_mod", "ext4", "xfs", "crc32c_generic", "crc32c_intel"}

// The book lists the drivers of the agent, and lists none of them as missing.
func TestDriversAreInTheBook(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "book", "reference", "host-requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "\n## Drivers of the agent\n")
	if !ok {
		t.Fatal("docs/book/reference/host-requirements.md has no section about the agent's drivers")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	name := regexp.MustCompile("`([a-z0-9_]+)`")
	named := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range name.FindAllStringSubmatch(cells[2], -1) {
			row := strings.TrimSpace(cells[1])
			named[row] = append(named[row], m[1])
		}
	}
	got := slices.Sorted(slices.Values(slices.Concat(named["network cards"], named["disks"])))
	want := slices.Sorted(slices.Values(slices.DeleteFunc(slices.Clone(agentModules), func(m string) bool { return slices.Contains(besides, m) })))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("drivers (-agentModules +docs/book/reference/host-requirements.md):\n%s", diff)
	}
	missing := named["not included"]
	if len(missing) == 0 {
		t.Error("docs/book/reference/host-requirements.md names no driver that is not there")
	}
	for _, m := range missing {
		if slices.Contains(agentModules, m) {
			t.Errorf("docs/book/reference/host-requirements.md lists %s as missing", m)
		}
	}
}
