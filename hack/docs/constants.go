// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// category is a section of the page of reasons.
type category struct {
	name, intro string
}

// categories are in the order of the page.
var categories = []category{
	{"BMC", "Ingot cannot use the BMC, or the BMC reports a problem. See [Troubleshoot BMCs](../tasks/troubleshoot/bmc.md)."},
	{"Boot", "The server does not boot the agent or the installed system. See [Troubleshoot boots](../tasks/troubleshoot/boot.md)."},
	{"Inventory", "The host is not usable, or not the expected server. See [Troubleshoot hosts](../tasks/troubleshoot/hosts.md)."},
	{"Installation", "An image, a disk or the first boot causes a failure. See [Troubleshoot installs](../tasks/troubleshoot/install.md)."},
	{"Network", "The host or machine has no usable network or address. See [Troubleshoot networks](../tasks/troubleshoot/networks.md)."},
	{"Machine", "The machine has no host, or its Node has a problem. See [Troubleshoot machines](../tasks/troubleshoot/machines.md)."},
	{"Cluster", "The cluster or its reservation has a problem. See [Troubleshoot clusters](../tasks/troubleshoot/clusters.md)."},
	{"Configuration", "An object has a value that has no effect, or that stops Ingot on purpose."},
	{"Security", "A certificate, a password, a token or the trust in a boot."},
	{"Internal", "Ingot itself has a problem."},
	{"Progress", "Work continues or is done."},
}

// source is a package of which only the constants matter: imports stay unresolved.
type source struct {
	files []*ast.File
	info  types.Info
}

// load parses the Go files of a directory that are not tests.
func load(dir string) (*source, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	s, positions := &source{info: types.Info{Types: map[ast.Expr]types.TypeAndValue{}}}, token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(positions, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file)
	}
	unresolved := types.Config{Error: func(error) {}}
	_, _ = unresolved.Check(dir, positions, s.files, &s.info)
	return s, nil
}

// text returns the value of a constant string expression, or "".
func (s *source) text(expression ast.Expr) string {
	if value := s.info.Types[expression].Value; value != nil && value.Kind() == constant.String {
		return constant.StringVal(value)
	}
	return ""
}

// documented is a string constant with its comment.
type documented struct {
	name, value, text string
	markers           map[string]string
}

// constants returns the string constants of a package whose name matches, by value.
func constants(dir string, matches func(name string) bool) ([]documented, error) {
	s, err := load(dir)
	if err != nil {
		return nil, err
	}
	var found []documented
	for _, file := range s.files {
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, entry := range group.Specs {
				spec := entry.(*ast.ValueSpec)
				if name := spec.Names[0].Name; len(spec.Values) == 1 && matches(name) {
					doc := spec.Doc
					if !group.Lparen.IsValid() {
						doc = group.Doc
					}
					description, markers := comment(name, doc.Text())
					found = append(found, documented{name, s.text(spec.Values[0]), description, markers})
				}
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no constants were found", dir)
	}
	slices.SortFunc(found, func(a, b documented) int { return cmp.Or(cmp.Compare(a.value, b.value), cmp.Compare(a.name, b.name)) })
	return found, nil
}

// rule is a reference to an invariant or a rule of the contract, which operators do not read.
var rule = regexp.MustCompile(` \([IM][0-9]+\)`)

// comment splits a comment into its text, without the constant's name, and its markers.
func comment(name, doc string) (string, map[string]string) {
	markers, last, description := map[string]string{}, "", []string{}
	for line := range strings.Lines(doc) {
		line = strings.TrimSpace(line)
		marker, isMarker := strings.CutPrefix(line, "+ingot:")
		switch {
		case isMarker:
			key, value, _ := strings.Cut(marker, "=")
			last, markers[key] = key, strings.TrimSpace(value)
		case line == "":
			last = ""
		case last != "":
			markers[last] += " " + line
		default:
			description = append(description, line)
		}
	}
	text := strings.TrimLeft(strings.TrimPrefix(strings.Join(description, " "), name), ": ")
	return capital(strings.TrimPrefix(rule.ReplaceAllString(text, ""), "is ")), markers
}

func capital(sentence string) string {
	first, size := utf8.DecodeRuneInString(sentence)
	if size == 0 {
		return ""
	}
	return string(unicode.ToUpper(first)) + sentence[size:]
}

func reasonsPage(root string) (string, error) {
	var all []documented
	for _, source := range []struct{ dir, prefix string }{{"api/v1beta2", "Reason"}, {"agent", "Reason"}, {"agentapi", "Failure"}} {
		found, err := constants(filepath.Join(root, source.dir), func(name string) bool { return strings.HasPrefix(name, source.prefix) })
		if err != nil {
			return "", err
		}
		all = append(all, found...)
	}
	return reasonTables(all)
}

// reasonTables returns the page, or an error for each reason that lacks a text, a known category or a
// remedy. Of constants with the same value, one is documented.
func reasonTables(all []documented) (string, error) {
	var out strings.Builder
	out.WriteString("A condition, an event or a failed operation has a reason. The message next to the reason has the details:\n`kubectl get ih NAME -o wide` and `kubectl describe ih NAME` show both.\n")
	var errs []error
	rows, seen := map[string][][]string{}, map[string]bool{}
	for _, c := range all {
		section, remedy := c.markers["category"], c.markers["remedy"]
		known := slices.ContainsFunc(categories, func(k category) bool { return k.name == section })
		if c.text == "" && seen[c.value] {
			continue
		}
		if seen[c.value] || c.text == "" || !known || remedy == "" {
			errs = append(errs, fmt.Errorf("%s (%q): its comment must have a text, a known +ingot:category and a +ingot:remedy, once for each value", c.name, c.value))
		}
		seen[c.value] = true
		rows[section] = append(rows[section], []string{code(c.value), plain(c.text), plain(remedy)})
	}
	for _, section := range categories {
		if found := rows[section.name]; len(found) > 0 {
			slices.SortFunc(found, slices.Compare)
			fmt.Fprintf(&out, "\n## %s\n\n%s\n\n%s", section.name, section.intro, table([]string{"Reason", "Meaning", "Remedy"}, found))
		}
	}
	return out.String(), errors.Join(errs...)
}

func annotationsPage(root string) (string, error) {
	all, err := constants(filepath.Join(root, "api", "v1beta2"), func(name string) bool {
		return strings.HasSuffix(name, "Annotation") || strings.HasSuffix(name, "Label")
	})
	if err != nil {
		return "", err
	}
	var errs []error
	rows := map[string][][]string{}
	for _, c := range all {
		kind := "Labels"
		if strings.HasSuffix(c.name, "Annotation") {
			kind = "Annotations"
		}
		by := c.markers["by"]
		if c.text == "" || c.markers["on"] == "" || c.markers["value"] == "" || by != "operator" && by != "Ingot" {
			errs = append(errs, fmt.Errorf("%s: its comment must have a text, +ingot:on, +ingot:value, and +ingot:by=operator or +ingot:by=Ingot", c.name))
		}
		rows[kind+by] = append(rows[kind+by], []string{code(c.value), c.markers["on"], plain(c.markers["value"]), plain(c.text)})
	}
	var out strings.Builder
	for _, section := range []struct{ title, intro, rows string }{
		{"Commands and annotations", "You set these annotations.\nA value with a time starts with the current time in UTC, as `date -u +%FT%TZ` prints it.\nIngot carries out such a command at most once, and only within an hour of its time.", "Annotationsoperator"},
		{"Labels", "You set these labels.", "Labelsoperator"},
		{"Annotations of Ingot", "Ingot sets these annotations. Do not change them unless the table says so.", "AnnotationsIngot"},
		{"Labels of Ingot", "Ingot sets these labels.", "LabelsIngot"},
	} {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n%s", section.title, section.intro, table([]string{"Name", "On", "Value", "Meaning"}, rows[section.rows]))
	}
	return out.String(), errors.Join(errs...)
}
