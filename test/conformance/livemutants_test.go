// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/test/needs"
)

// A goMutant is the product with a rule broken by a change of Go code. The rule must find it,
// and of the others only those that cannot hold without it.
type goMutant struct {
	rule string
	// also are the rules that fail with it.
	also  []string
	edits []sourceEdit
}

// A sourceEdit replaces the only occurrence of a text in a file below the top of the source tree.
type sourceEdit struct{ file, old, new string }

// A mutantGroup is one build with several mutants that do not disturb each other. live groups
// need the run with Cluster API's controllers; to the others the API server and the runtime
// extension are enough.
type mutantGroup struct {
	name    string
	live    bool
	mutants []goMutant
}

// TestGoMutants demands that of each group exactly the rules of its mutants fail. The source
// tree stays as it is: the builds get the changed files by an overlay.
func TestGoMutants(t *testing.T) {
	part := os.Getenv("INGOT_MUTANTS")
	if part == "" || part == "release" {
		t.Skip("make conformance-mutants")
	}
	found, all := 0, 0
	for _, group := range mutantGroups {
		if !strings.HasPrefix(group.name, part) {
			continue
		}
		all += len(group.mutants)
		t.Run(group.name, func(t *testing.T) { found += group.find(t) })
	}
	if all == 0 {
		t.Errorf("INGOT_MUTANTS=%s selects no mutants; use release, server, run, or the name of a group", part)
	}
	fmt.Printf("mutants: %d of %d found\n", found, all)
}

// TestGoMutantsFit fails if a mutant of Go code no longer fits the source or does not compile, or if
// too few rules have one.
func TestGoMutantsFit(t *testing.T) {
	rules, seen := map[string]Rule{}, map[string]bool{}
	for _, rule := range Rules() {
		rules[rule.ID] = rule
	}
	for _, group := range mutantGroups {
		overlay, err := group.overlay(t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", group.name, err)
			continue
		}
		build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-overlay=" + overlay}, group.packages()...)...)
		build.Dir = needs.Tools(t).Root()
		if out, err := build.CombinedOutput(); err != nil {
			t.Errorf("%s does not compile: %v\n%s", group.name, err, out)
		}
		for _, m := range group.mutants {
			for _, id := range append(slices.Clone(m.also), m.rule) {
				if _, is := rules[id]; !is {
					t.Errorf("%s: there is no rule %s", group.name, id)
				}
			}
			seen[m.rule] = true
		}
	}
	const least = 30
	if len(seen) < least {
		t.Errorf("%d rules have a mutant in Go, want %d", len(seen), least)
	}
}

// packages returns the directories that the group's mutants change, each as ./DIR.
func (g mutantGroup) packages() []string {
	var dirs []string
	for _, m := range g.mutants {
		for _, e := range m.edits {
			dirs = append(dirs, "./"+filepath.Dir(e.file))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// overlay writes the changed files into a directory, and returns the file that tells the go
// command of them.
func (g mutantGroup) overlay(dir string) (string, error) {
	set, err := tools.Open()
	if err != nil {
		return "", err
	}
	changed := map[string]string{}
	for _, m := range g.mutants {
		for _, e := range m.edits {
			path := filepath.Join(set.Root(), e.file)
			text, known := changed[path]
			if !known {
				data, err := os.ReadFile(path)
				if err != nil {
					return "", fmt.Errorf("%s: %w", m.rule, err)
				}
				text = string(data)
			}
			if n := strings.Count(text, e.old); n != 1 {
				return "", fmt.Errorf("%s: %s has %q %d times: the mutant is stale", m.rule, e.file, e.old, n)
			}
			changed[path] = strings.Replace(text, e.old, e.new, 1)
		}
	}
	replace := map[string]string{}
	for i, path := range slices.Sorted(maps.Keys(changed)) {
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(replace[path], []byte(changed[path]), 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, data, 0o600)
}

// failedRule is a line of the report about a rule that fails.
var failedRule = regexp.MustCompile(`(?m)^([MCKRL][0-9]+b?) fails: (.*)$`)

// find runs the suite on the group's product, and returns how many mutants their rule found.
func (g mutantGroup) find(t *testing.T) int {
	t.Helper()
	overlay, err := g.overlay(t.TempDir())
	check(t, err)
	report := filepath.Join(t.TempDir(), "report")
	suite := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=20m", "-run=^TestConformance$", "./test/conformance")
	set, err := tools.Open()
	check(t, err)
	suite.Dir = set.Root()
	// The manager of the run is built by the suite, from the same overlay.
	suite.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay), reportVar+"="+report, waitVar+"=3m")
	if !g.live {
		suite.Env = append(suite.Env, noRunVar+"=1")
	}
	var log bytes.Buffer
	suite.Stdout, suite.Stderr = &log, &log
	_ = suite.Run() // rules fail, and so does the suite
	data, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("there is no report: %v\n%s", err, log.Bytes())
	}
	failed := map[string]string{}
	for _, line := range failedRule.FindAllStringSubmatch(string(data), -1) {
		failed[line[1]] = line[2]
	}
	found, meant := 0, map[string]bool{}
	for _, m := range g.mutants {
		meant[m.rule] = true
		for _, id := range m.also {
			meant[id] = true
		}
		if failed[m.rule] == "" {
			t.Errorf("%s holds for %q", m.rule, m.edits[0].new)
			continue
		}
		found++
		t.Logf("%s: %s", m.rule, failed[m.rule])
	}
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		if !meant[id] {
			t.Errorf("%s fails, and no mutant breaks it: %s", id, failed[id])
		}
	}
	if t.Failed() {
		t.Logf("the suite said:\n%s\n%s", data, log.Bytes())
	}
	return found
}
