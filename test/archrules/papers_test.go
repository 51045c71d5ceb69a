// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package archrules_test

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	// invariant is how comments name one, and how the page's headings begin.
	invariant = regexp.MustCompile(`\bI([0-9]+)\b`)
	section   = regexp.MustCompile(`(?m)^### (I[0-9]+) `)
	// evidence is a test as the page names it: `package.Test`, `package.Test/subtest`.
	evidence = regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9_]+)(?:/([^`]+))?`")
	decision = regexp.MustCompile(`\b0[0-9]{3}\b`)
	cites    = regexp.MustCompile(`(?i)\bdecisions? 0[0-9]{3}(?:(?:,| and) 0[0-9]{3})*`)
	// ruleNumber is a rule or an invariant as comments name them at a sentence's end.
	ruleNumber = regexp.MustCompile(`[(,] ?[IKMCR][0-9]{1,2}[,)]`)
)

// Every invariant that a comment names is written down, with tests that show it.
func TestInvariantsAreWritten(t *testing.T) {
	page := read(t, filepath.Join("..", "..", "docs", "invariants.md"))
	known, last := map[string]bool{}, 0
	starts := section.FindAllStringSubmatchIndex(page, -1)
	for i, at := range starts {
		name, end := page[at[2]:at[3]], len(page)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		// Their numbers are given out ahead, and not in the order in which they are written.
		number, err := strconv.Atoi(name[1:])
		if err != nil || number <= last {
			t.Errorf("heading %s stands after I%d", name, last)
		}
		last = number
		known[name] = true
		shown := evidence.FindAllStringSubmatch(page[at[0]:end], -1)
		if len(shown) == 0 {
			t.Errorf("%s: no test is named that shows it", name)
		}
		for _, test := range shown {
			if !isTest(t, test[1], test[2], test[3]) {
				t.Errorf("%s is shown by %s, which is not there", name, test[0])
			}
		}
	}
	named := 0
	comments(t, func(at, text string) {
		for _, name := range invariant.FindAllString(text, -1) {
			if named++; !known[name] {
				t.Errorf("%s names %s, which docs/invariants.md does not have", at, name)
			}
		}
	})
	if named < 100 {
		t.Errorf("only %d comments name an invariant: they were not found", named)
	}
}

// isTest says whether a directory has a test, and one of its subtests where one is named.
func isTest(t *testing.T, dir, name, subtest string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	function, part := false, subtest == ""
	for _, file := range files {
		source := read(t, file)
		function = function || strings.Contains(source, "\nfunc "+name+"(")
		part = part || strings.Contains(source, fmt.Sprintf("%q", subtest))
	}
	return function && part
}

// decisionForm are the lines that every decision record has, in this order.
var decisionForm = regexp.MustCompile(`(?s)^# (0[0-9]{3}): [^\n]+\n\nStatus: (?:accepted|superseded by 0[0-9]{3})\n\nDate: 2[0-9]{3}-[0-9]{2}-[0-9]{2}\n\n## Context\n.*\n## Decision\n.*\n## Consequences\n`)

// maxDecisionWords is the longest that a decision record may be.
const maxDecisionWords = 350

// TestDecisionsAreIndexed expects that every decision record has the common form and one line in the
// index, and that every decision that a comment names exists.
func TestDecisionsAreIndexed(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "decisions")
	files, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil {
		t.Fatal(err)
	}
	index := read(t, filepath.Join(dir, "README.md"))
	var numbers []string
	for _, file := range files {
		base := filepath.Base(file)
		numbers = append(numbers, base[:4])
		text := read(t, file)
		if form := decisionForm.FindStringSubmatch(text); form == nil || form[1] != base[:4] {
			t.Errorf("docs/decisions/%s does not have the form that docs/decisions/README.md describes", base)
		}
		if n := len(strings.Fields(text)); n > maxDecisionWords {
			t.Errorf("docs/decisions/%s has %d words, want at most %d", base, n, maxDecisionWords)
		}
		if n := strings.Count(index, fmt.Sprintf("\n- [%s](%s) ", base[:4], base)); n != 1 {
			t.Errorf("docs/decisions/README.md has %d lines for %s, want one", n, base)
		}
	}
	if len(numbers) < 40 {
		t.Fatalf("only %d decisions were found", len(numbers))
	}
	if all := slices.Compact(slices.Clone(numbers)); len(all) != len(numbers) {
		t.Errorf("%d decisions have %d numbers", len(numbers), len(all))
	}
	comments(t, func(at, text string) {
		for _, words := range cites.FindAllString(text, -1) {
			for _, number := range decision.FindAllString(words, -1) {
				if !slices.Contains(numbers, number) {
					t.Errorf("%s names decision %s, which is not there", at, number)
				}
			}
		}
	})
}

// What "kubectl explain" shows is for operators: it names no rule by a number that only
// this tree explains.
func TestDescriptionsNameNoRules(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "crd", "bases", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 8 {
		t.Fatalf("only %d definitions were found", len(files))
	}
	for _, file := range files {
		for i, line := range strings.Split(read(t, file), "\n") {
			if found := ruleNumber.FindString(line); found != "" {
				t.Errorf("%s:%d: %q in a description; the sentence of the type's comment stands without it", file, i+1, found)
			}
		}
	}
}

// comments calls for every comment of the module's Go files.
func comments(t *testing.T, call func(at, text string)) {
	t.Helper()
	sources(t, func(path string, source []byte) {
		files := token.NewFileSet()
		var s scanner.Scanner
		s.Init(files.AddFile(path, -1, len(source)), source, nil, scanner.ScanComments)
		for {
			pos, kind, text := s.Scan()
			if kind == token.EOF {
				return
			}
			if kind == token.COMMENT {
				call(files.Position(pos).String(), text)
			}
		}
	})
}

// sources calls for every Go file of the module, with its path from the top.
func sources(t *testing.T, call func(path string, source []byte)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err == nil {
			call(below, source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
