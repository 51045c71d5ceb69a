// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// State is what became of a rule.
type State string

// The states.
const (
	Holds      State = "holds"
	Fails      State = "fails"
	ByDocument State = "document"
	// NotRun rules need a run that was not made.
	NotRun State = "not run"
	// Deviates: Ingot does something else on purpose, and the rule says why.
	Deviates State = "deviates"
	// NotApplicable rules are about something that Ingot does not have.
	NotApplicable State = "not applicable"
)

// A Result is a rule and what became of it.
type Result struct {
	Rule   Rule
	State  State
	Detail string
}

// Judge says what became of a rule. run may be nil: rules that need one are then
// not run, and of rules that need both only the half is looked at.
func Judge(rule Rule, shipped *Shipped, run *Run) Result {
	result := Result{Rule: rule, State: Holds}
	if rule.Document != "" {
		result.State, result.Detail = ByDocument, rule.Document
		if err := documented(shipped.Docs, rule.Document); err != nil {
			result.State, result.Detail = Fails, err.Error()
		}
		return result
	}
	var p problems
	if rule.Check != nil {
		if err := guarded(rule.Check, shipped); err != nil {
			p = append(p, err)
		}
	}
	if rule.Live != nil && run != nil {
		if err := guarded(rule.Live, run); err != nil {
			p = append(p, err)
		}
	}
	switch {
	case len(p) > 0:
		result.State, result.Detail = Fails, strings.ReplaceAll(p.err().Error(), "\n", "; ")
	case rule.Check == nil && run == nil:
		result.State, result.Detail = NotRun, "make conformance"
	case len(rule.deviations()) > 0:
		result.State, result.Detail = Deviates, strings.Join(rule.deviations(), " ")
	case rule.NotApplicable != nil:
		if why := rule.NotApplicable(shipped); why != "" {
			result.State, result.Detail = NotApplicable, why
		}
	}
	return result
}

// guarded turns a panic of a check into its verdict: what a run that ended early lacks must
// not hide the verdicts on other rules.
func guarded[T any](check func(T) error, evidence T) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("the evidence is not complete: %v", cause)
		}
	}()
	return check(evidence)
}

// deviations returns what Ingot does instead of the rule, a sentence each.
func (rule Rule) deviations() []string {
	var out []string
	if rule.Deviation != "" {
		out = append(out, rule.Deviation)
	}
	for _, kind := range slices.Sorted(maps.Keys(rule.Exempt)) {
		out = append(out, kind+" is exempt: "+rule.Exempt[kind]+".")
	}
	return out
}

// documented checks that a place in the documents is there and says something.
func documented(docs map[string]string, place string) error {
	path, anchor, inside := strings.Cut(place, "#")
	text, ok := docs[path]
	if !ok {
		return fmt.Errorf("there is no %s", path)
	}
	if inside {
		text = section(text, anchor)
	}
	const few = 15
	if words := len(strings.Fields(text)); words < few {
		return fmt.Errorf("%s says it in %d words", place, words)
	}
	return nil
}

// section is the text below the heading with an anchor, up to the next heading;
// empty if there is no such heading.
func section(text, anchor string) string {
	var out []string
	in := false
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			in = Anchor(heading) == anchor
			continue
		}
		if in {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// Anchor is the anchor that a heading of Markdown gets: letters and digits in lower
// case, spaces as hyphens, the rest left out.
func Anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteRune('-')
		}
	}
	return b.String()
}

// Print writes one line for each rule, a table by document, the steps of the run that did
// not end, and the sum.
func Print(w io.Writer, results map[string]Result, stuck ...string) error {
	for _, rule := range Rules() {
		r := results[rule.ID]
		line := rule.ID + " " + string(r.State)
		if r.Detail != "" {
			line += ": " + r.Detail
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ndocument\trules\thold\tof these by document\tdeviate\tdo not apply\tfail")
	var all tally
	for _, section := range Sections() {
		var t tally
		for _, rule := range section.Rules {
			t.add(results[rule.ID].State)
			all.add(results[rule.ID].State)
		}
		t.row(table, section.Name)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, step := range stuck {
		if _, err := fmt.Fprintf(w, "\nstep %q of the run did not end; its log says what it waited for", step); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%sconformance: %d of %d rules hold (%d by document), %d deviate, %d do not apply\n",
		all.rest(), all.holds, all.rules, all.documents, all.deviates, all.notApplicable)
	return err
}

// tally counts rules by state.
type tally struct{ rules, holds, documents, deviates, notApplicable, fails, notRun int }

func (t *tally) add(s State) {
	t.rules++
	switch s {
	case Holds:
		t.holds++
	case ByDocument:
		t.holds++
		t.documents++
	case Fails:
		t.fails++
	case Deviates:
		t.deviates++
	case NotApplicable:
		t.notApplicable++
	case NotRun:
		t.notRun++
	}
}

func (t *tally) row(w io.Writer, name string) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", name, t.rules, t.holds, t.documents, t.deviates, t.notApplicable, t.fails)
}

// rest says what is missing to all, a line each.
func (t *tally) rest() string {
	out := ""
	for _, part := range []struct {
		n    int
		what string
	}{{t.fails, "fail"}, {t.notRun, "were not run: make conformance"}} {
		if part.n > 0 {
			out += fmt.Sprintf("%d %s\n", part.n, part.what)
		}
	}
	return out
}
