// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/test/needs"
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
	needs.ControlPlane(t)
	gathered.once.Do(func() { gathered.shipped = ship(t) })
	if gathered.shipped == nil {
		t.Fatal("the evidence could not be gathered")
	}
	return gathered.shipped
}

// reportPath is where the report goes, and the wish for the whole suite: with it a
// run with Cluster API's controllers is recorded.
func reportPath() string { return os.Getenv(reportVar) }

const (
	reportVar = "INGOT_CONFORMANCE"
	// noRunVar asks for the report without the run.
	noRunVar = "INGOT_CONFORMANCE_NO_RUN"
)

// TestConformance checks every rule on what is shipped and in a run. The report is printed
// whatever happens: a step of the run that does not end fails the rules that need it, and the
// steps after it are made all the same.
func TestConformance(t *testing.T) {
	shipped := shipOnce(t)
	if os.Getenv(noRunVar) != "" || reportPath() == "" && !needs.IsFull() {
		judgeAll(t, shipped, nil)
		return
	}
	r := newRecorder(t)
	defer func() { judgeAll(t, shipped, r.run) }()
	r.record(t)
}

// judgeAll judges every rule and writes the report.
func judgeAll(t *testing.T, shipped *Shipped, run *Run) {
	t.Helper()
	results := map[string]Result{}
	for _, rule := range Rules() {
		result := Judge(rule, shipped, run)
		results[rule.ID] = result
		if result.State == Fails {
			t.Errorf("%s: %s: %s", rule.ID, rule.Text, result.Detail)
		}
	}
	var report bytes.Buffer
	var stuck []string
	if run != nil {
		stuck = run.Stuck
	}
	check(t, Print(&report, results, stuck...))
	if path := reportPath(); path != "" {
		check(t, os.WriteFile(path, report.Bytes(), 0o600))
		return
	}
	t.Log(report.String())
}

// A rule that deviates or does not apply is reported so only while its check holds.
func TestJudgeDeviations(t *testing.T) {
	holds, fails := func(*Shipped) error { return nil }, func(*Shipped) error { return errors.New("broken") }
	foreign := func(s *Shipped) string { return s.Name }
	for name, tc := range map[string]struct {
		rule Rule
		want Result
	}{
		"deviates":                {Rule{Check: holds, Deviation: "why"}, Result{State: Deviates, Detail: "why"}},
		"deviates, and is broken": {Rule{Check: fails, Deviation: "why"}, Result{State: Fails, Detail: "broken"}},
		"does not apply":          {Rule{Check: holds, NotApplicable: foreign}, Result{State: NotApplicable, Detail: "ingot"}},
		"does not apply, broken":  {Rule{Check: fails, NotApplicable: foreign}, Result{State: Fails, Detail: "broken"}},
		"applies":                 {Rule{Check: holds, NotApplicable: func(*Shipped) string { return "" }}, Result{State: Holds}},
		"a run that was not made": {Rule{Live: func(*Run) error { return nil }, Deviation: "why"}, Result{State: NotRun, Detail: "make conformance"}},
	} {
		got := Judge(tc.rule, &Shipped{Name: "ingot"}, nil)
		if got.State != tc.want.State || got.Detail != tc.want.Detail {
			t.Errorf("%s: %s %q, want %s %q", name, got.State, got.Detail, tc.want.State, tc.want.Detail)
		}
	}
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
	for _, want := range []string{"M01 holds\n", "M02 fails: one; two\n", "K51 document: " + moveBook + "\n", " rules hold (1 by document), 0 deviate, 0 do not apply\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q", want)
		}
	}
}

const (
	contractPath = "docs/book/develop/contract.md"
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

// reliedOn are the rows of the book's table of behaviors: version, package and test.
var reliedOn = regexp.MustCompile("(?m)^\\| .* \\| (v[0-9.]+) \\| .* \\| `([a-z/]+)\\.(Test[A-Za-z]+)` \\|$")

// TestReliedOn fails when the version of Cluster API changes: the behaviors that Ingot
// relies on have to be looked at again, and their tests have to exist.
func TestReliedOn(t *testing.T) {
	set, err := tools.Open()
	check(t, err)
	rows := reliedOn.FindAllStringSubmatch(read(t, filepath.Join(set.Root(), contractPath)), -1)
	if len(rows) < 5 {
		t.Fatalf("%s has %d behaviors", contractPath, len(rows))
	}
	required := read(t, filepath.Join(set.Root(), "go.mod"))
	for _, row := range rows {
		version, dir, test := row[1], row[2], row[3]
		if !strings.Contains(required, "sigs.k8s.io/cluster-api "+version+"\n") {
			t.Errorf("%s.%s was seen in Cluster API %s, and go.mod requires another: look at the behavior again, then change the table", dir, test, version)
		}
		found := false
		for name, text := range readDir(t, filepath.Join(set.Root(), dir)) {
			found = found || strings.HasSuffix(name, "_test.go") && strings.Contains(text, "func "+test+"(t *testing.T)")
		}
		if !found {
			t.Errorf("there is no %s in %s", test, dir)
		}
	}
}

// table returns the rules as Markdown.
func table() string {
	var b strings.Builder
	for _, section := range Sections() {
		fmt.Fprintf(&b, "\n### %s\n\n%s.\n\n| rule | level | what it says | checked by |\n|---|---|---|---|\n", section.Name, section.Source)
		source := ""
		for _, rule := range section.Rules {
			if rule.Source != source && rule.Source != strings.ToLower(section.Name) {
				fmt.Fprintf(&b, "| | | **%s** | |\n", rule.Source)
			}
			source = rule.Source
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", rule.ID, rule.Level, strings.NewReplacer("<", "&lt;", "|", "\\|").Replace(rule.Text), keeper(rule))
		}
	}
	b.WriteString("\n### Deviations\n\nIngot keeps these rules differently, or not for all kinds. The behavior is checked.\n\n| rules | what Ingot does, and why |\n|---|---|\n")
	var texts []string
	rules := map[string][]string{}
	for _, rule := range Rules() {
		for _, deviation := range rule.deviations() {
			if rules[deviation] == nil {
				texts = append(texts, deviation)
			}
			rules[deviation] = append(rules[deviation], rule.ID)
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(rules[text], ", "), text)
	}
	b.WriteString("\n")
	return b.String()
}

// keeper returns what checks a rule, or a link to the document that keeps it.
func keeper(rule Rule) string {
	switch {
	case rule.Document != "":
		path, anchor, _ := strings.Cut(rule.Document, "#")
		if anchor != "" {
			return fmt.Sprintf("[%s](#%s)", anchor, anchor)
		}
		target, err := filepath.Rel(filepath.Dir(contractPath), path)
		if err != nil {
			return path
		}
		return fmt.Sprintf("[%s](%s)", filepath.Base(path), target)
	case rule.Check != nil && rule.Live != nil:
		return "release and run"
	case rule.Check != nil:
		return "release"
	default:
		return "run"
	}
}
