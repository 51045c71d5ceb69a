// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package archrules_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A target of the Makefile that hack/packages.sh has packages for asks for them, itself or
// by what it depends on, and by its own name, before anything else: another's packages may be
// fewer, and what is missing shows hours later.
func TestTargetsAskForTheirPackages(t *testing.T) {
	root := filepath.Join("..", "..")
	rules := makeRules(read(t, filepath.Join(root, "Makefile")))
	targets := packagedTargets(t, read(t, filepath.Join(root, "hack", "packages.sh")))
	if len(targets) < 10 {
		t.Fatalf("only the targets %q were found in hack/packages.sh", targets)
	}
	for _, target := range targets {
		if _, ok := rules[target]; !ok {
			t.Errorf("hack/packages.sh has packages for %s, which is no target of the Makefile", target)
			continue
		}
		if asked := asksFor(rules, target, map[string]bool{}); len(asked) == 0 || asked[0] != target {
			t.Errorf("make %s asks for the packages of %q, and must for those of %s first", target, asked, target)
		}
	}
}

func TestMakeRules(t *testing.T) {
	rules := makeRules("A ?= b: c\n.PHONY: all\nall: packages-x part ## All: of it.\n\tdo it: now\n\npart:\n\thack/packages.sh y z\n\n# part: of nothing\n")
	for target, want := range map[string][]string{"all": {"x", "y", "z"}, "part": {"y", "z"}, "none": nil} {
		if got := asksFor(rules, target, map[string]bool{}); !slices.Equal(got, want) {
			t.Errorf("%s asks for %q, want %q", target, got, want)
		}
	}
	if len(rules) != 2 {
		t.Errorf("rules %v, want 2", rules)
	}
}

// makeRule is what one target needs and does.
type makeRule struct{ needs, does []string }

var ruleHead = regexp.MustCompile(`^([a-z0-9-]+):([^=#]*)(?:##.*)?$`)

// makeRules reads the explicit rules of a Makefile that keeps to one target each.
func makeRules(text string) map[string]*makeRule {
	rules := map[string]*makeRule{}
	var now *makeRule
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if recipe, ok := strings.CutPrefix(line, "\t"); ok {
			if now != nil {
				now.does = append(now.does, recipe)
			}
			continue
		}
		now = nil
		if head := ruleHead.FindStringSubmatch(line); head != nil {
			now = &makeRule{needs: strings.Fields(head[2])}
			rules[head[1]] = now
		}
	}
	return rules
}

// asksFor are the arguments that hack/packages.sh gets before a target is made, in order.
func asksFor(rules map[string]*makeRule, target string, seen map[string]bool) []string {
	rule := rules[target]
	if rule == nil || seen[target] {
		return nil
	}
	seen[target] = true
	var asked []string
	for _, need := range rule.needs {
		if name, ok := strings.CutPrefix(need, "packages-"); ok {
			asked = append(asked, name)
		}
		asked = append(asked, asksFor(rules, need, seen)...)
	}
	for _, command := range rule.does {
		if names, ok := strings.CutPrefix(command, "hack/packages.sh "); ok {
			asked = append(asked, strings.Fields(names)...)
		}
	}
	return asked
}

// packagedTargets are the targets of the table in hack/packages.sh.
func packagedTargets(t *testing.T, script string) []string {
	t.Helper()
	_, table, found := strings.Cut(script, "<<'T'\n")
	table, _, ended := strings.Cut(table, "\nT\n")
	if !found || !ended {
		t.Fatal("hack/packages.sh has no table")
	}
	var targets []string
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 2 {
			targets = append(targets, fields[2:]...)
		}
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}
