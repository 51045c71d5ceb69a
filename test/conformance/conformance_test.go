// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/hack/tools"
)

var update = flag.Bool("update", false, "write the table of rules into "+contractPath)

// gathered is the evidence that the tests of a process share: it takes an API
// server to gather.
var gathered struct {
	once    sync.Once
	shipped *Shipped
}

func shipOnce(t *testing.T) *Shipped {
	t.Helper()
	gathered.once.Do(func() { gathered.shipped = ship(t) })
	if gathered.shipped == nil {
		t.Fatal("the evidence could not be gathered")
	}
	return gathered.shipped
}

// reportPath is where the report goes, and the wish for the whole suite: with it a
// run with Cluster API's controllers is recorded.
func reportPath() string { return os.Getenv("INGOT_CONFORMANCE") }

// TestConformance checks every rule on what is shipped, one subtest each.
func TestConformance(t *testing.T) {
	shipped := shipOnce(t)
	var run *Run
	if reportPath() != "" || os.Getenv("INGOT_FULL") == "1" {
		run = record(t)
	}
	results := map[string]Result{}
	for _, rule := range Rules() {
		results[rule.ID] = Judge(rule, shipped, run)
		t.Run(rule.ID, func(t *testing.T) {
			switch r := results[rule.ID]; r.State {
			case Fails:
				t.Errorf("%s: %s", rule.Text, r.Detail)
			case NotRun:
				t.Skipf("%s: %s", r.State, r.Detail)
			case Holds, ByDocument:
			}
		})
	}
	var report bytes.Buffer
	check(t, Print(&report, results))
	if path := reportPath(); path != "" {
		check(t, os.WriteFile(path, report.Bytes(), 0o600))
		return
	}
	t.Log(report.String())
}

// A rule kept by a document is broken by a document that is not there, has no such
// section, or says nothing in it.
func TestBrokenDocuments(t *testing.T) {
	docs := map[string]string{"a.md": "# A\n\n## M05 Deprecation policy\n\n" + strings.Repeat("word ", 20) + "\n## Empty\n\n## Next\n"}
	for place, ok := range map[string]bool{
		"a.md": true, "a.md#m05-deprecation-policy": true,
		"b.md": false, "a.md#empty": false, "a.md#m06": false,
	} {
		if err := documented(docs, place); (err == nil) != ok {
			t.Errorf("%s: %v", place, err)
		}
	}
	for _, rule := range Rules() {
		if rule.Document == "" {
			continue
		}
		if r := Judge(rule, &Shipped{}, nil); r.State != Fails {
			t.Errorf("%s: %s without its document", rule.ID, r.State)
		}
	}
}

// The lines and the sum of the report are what scripts read.
func TestPrint(t *testing.T) {
	results := map[string]Result{}
	for _, rule := range Rules() {
		results[rule.ID] = Judge(Rule{ID: rule.ID, Document: rule.Document}, &Shipped{Docs: map[string]string{
			contractPath: "", moveBook: strings.Repeat("word ", 20),
		}}, nil)
	}
	results["M01"] = Result{State: Holds}
	results["M02"] = Result{State: Fails, Detail: "one; two"}
	var out bytes.Buffer
	check(t, Print(&out, results))
	for _, want := range []string{"M01 holds\n", "M02 fails: one; two\n", "K51 document: " + moveBook + "\n", " rules hold (1 by document)\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q", want)
		}
	}
}

const (
	contractPath = "docs/book/contract.md"
	tableBegin   = "<!-- The table is written by: go test ./test/conformance -run TestBook -update -->\n"
	tableEnd     = "<!-- end of the table -->\n"
)

// TestBook keeps the table of all rules in the operator's book.
func TestBook(t *testing.T) {
	set, err := tools.Open()
	check(t, err)
	path := filepath.Join(set.Root(), contractPath)
	book := read(t, path)
	head, rest, begun := strings.Cut(book, tableBegin)
	_, tail, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", contractPath)
	}
	want := head + tableBegin + table() + tableEnd + tail
	if *update {
		check(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	if diff := cmp.Diff(want, book); diff != "" {
		t.Errorf("the table is stale; run the test with -update (-want +got):\n%s", diff)
	}
}

// table is the rules as Markdown.
func table() string {
	var b strings.Builder
	for _, section := range Sections() {
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n| rule | section | level | | tag | kept by |\n|---|---|---|---|---|---|\n", section.Name, section.Source)
		for _, rule := range section.Rules {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", rule.ID, rule.Source, rule.Level, strings.NewReplacer("<", "&lt;", "|", "\\|").Replace(rule.Text), rule.Tag, keeper(rule))
		}
	}
	b.WriteString("\n")
	return b.String()
}

// keeper says by what a rule is kept.
func keeper(rule Rule) string {
	switch {
	case rule.Document != "":
		path, anchor, _ := strings.Cut(rule.Document, "#")
		target := "#" + anchor
		if anchor == "" {
			target = filepath.Base(path)
		}
		return fmt.Sprintf("[%s](%s)", strings.TrimPrefix(target, "#"), target)
	case rule.Check != nil && rule.Live != nil:
		return "release and run"
	case rule.Check != nil:
		return "release"
	default:
		return "run"
	}
}
