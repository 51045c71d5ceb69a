// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package archrules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestContributingNamesEveryDirectory expects every directory at the top, and every package of
// config, lab and test, in the table of CONTRIBUTING.md.
func TestContributingNamesEveryDirectory(t *testing.T) {
	root := filepath.Join("..", "..")
	_, table, found := strings.Cut(read(t, filepath.Join(root, "CONTRIBUTING.md")), "\n## Layout\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no section Layout")
	}
	expect := func(parent, suffix string, leaveOut map[string]bool) {
		entries, err := os.ReadDir(filepath.Join(root, parent))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			name := entry.Name()
			if !entry.IsDir() || strings.HasPrefix(name, ".") || leaveOut[name] {
				continue
			}
			if !strings.Contains(table, "`"+name+suffix) {
				t.Errorf("CONTRIBUTING.md does not name %s", filepath.Join(parent, name))
			}
		}
	}
	// dist and out are what make writes; docs stands there by its parts.
	expect(".", "/`", map[string]bool{"dist": true, "docs": true, "out": true})
	for _, part := range []string{"`docs/book/`", "`docs/decisions/`", "`docs/invariants.md`", "`docs/field-notes.md`"} {
		if !strings.Contains(table, part) {
			t.Errorf("CONTRIBUTING.md does not name %s", part)
		}
	}
	for _, parent := range []string{"config", "lab", "test"} {
		expect(parent, "`", nil)
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	marks   = regexp.MustCompile("[^a-z0-9 _-]")
)

// TestLinksLeadSomewhere expects that each relative link of the README, CONTRIBUTING.md, the book and
// the decisions names a file, and a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	root := filepath.Join("..", "..")
	pages := []string{filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")}
	for _, under := range []string{"*.md", "book/*.md", "book/*/*.md", "book/*/*/*.md", "decisions/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, "docs", under))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	links := 0
	for _, page := range pages {
		for _, match := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			links++
			path, anchor, _ := strings.Cut(match[1], "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s: %v", page, match[1], err)
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s: link to %s: there is no such heading", page, match[1])
			}
		}
	}
	if links < 200 {
		t.Fatalf("only %d links were found", links)
	}
}

var (
	metricLiteral = regexp.MustCompile(`"(ingot_[a-z0-9_]+)"`)
	metricWord    = regexp.MustCompile(`ingot_[a-z0-9_]+`)
)

// Every metric that Ingot serves stands in the operator's book.
func TestBookNamesEveryMetric(t *testing.T) {
	root := filepath.Join("..", "..")
	var pages []string
	for _, under := range []string{"*.md", "*/*.md", "*/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, "docs", "book", under))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	told := map[string]bool{}
	for _, page := range pages {
		for _, name := range metricWord.FindAllString(read(t, page), -1) {
			told[name] = true
		}
	}
	served := map[string]bool{}
	sources(t, func(path string, source []byte) {
		if strings.HasSuffix(path, "_test.go") || !servesMetrics[room(path)] {
			return
		}
		for _, match := range metricLiteral.FindAllSubmatch(source, -1) {
			name := string(match[1])
			if served[name] = true; !told[name] {
				t.Errorf("%s: no page of docs/book tells of %s", path, name)
			}
		}
	})
	if len(served) < 15 {
		t.Errorf("only %d metrics were found", len(served))
	}
}

// servesMetrics are the rooms whose programs serve metrics.
var servesMetrics = map[string]bool{"bmc": true, "pxe": true, "controllers": true, "webhooks": true, "runtimehooks": true, "cmd": true}

// room is the directory at the top that a file is below.
func room(path string) string {
	first, _, _ := strings.Cut(filepath.ToSlash(path), "/")
	return first
}

// anchors are the names that GitHub gives to the headings of a page.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(page, -1) {
		found[strings.ReplaceAll(marks.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-")] = true
	}
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var (
	walkStep = regexp.MustCompile("(?m)^[0-9]+\\. `([a-z0-9/]+)`(.*)$")
	goFile   = regexp.MustCompile("`([a-z0-9_]+\\.go)`")
)

// The walks of the architecture page name packages and files that exist.
func TestArchitectureNamesWhatExists(t *testing.T) {
	root := filepath.Join("..", "..")
	steps := walkStep.FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "book", "develop", "architecture.md")), -1)
	if len(steps) < 10 {
		t.Fatalf("%d steps found, want those of two walks", len(steps))
	}
	for _, step := range steps {
		paths := []string{step[1]}
		for _, file := range goFile.FindAllStringSubmatch(step[2], -1) {
			paths = append(paths, filepath.Join(step[1], file[1]))
		}
		for _, path := range paths {
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("the walks name %s: %v", path, err)
			}
		}
	}
}
