// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package prose

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root          = "../.."
	maxWords      = 30
	maxExceptions = 50
)

// unwanted are words with what to write instead.
var unwanted = map[string]string{
	// Words of the time before the glossary.
	"for ever": "forever, permanently", "anew": "again", "in vain": "without effect", "whoever": "name the actor", "stranger": "unknown client", "strangers": "unknown clients", "lamp": "indicator LED",
	"mend": "repair, correct", "mended": "repaired, corrected", "heeds": "carries out", "enrol": "enroll", "enrolment": "enrollment",
	// British spelling.
	"behaviour": "behavior", "catalogue": "catalog", "licence": "license", "artefact": "artifact", "artefacts": "artifacts", "datacentre": "datacenter",
	"colour": "color", "honour": "honor", "favour": "favor", "neighbour": "neighbor", "cancelled": "canceled", "labelled": "labeled",
	"recognise": "recognize", "initialise": "initialize", "initialised": "initialized", "organisation": "organization", "centre": "center",
	"serialise": "serialize", "normalise": "normalize", "authorised": "authorized", "unauthorised": "unauthorized", "synchronise": "synchronize",
}

// finding is a sentence or a word that a rule does not allow.
type finding struct {
	path, text, problem string
}

func (f finding) String() string { return fmt.Sprintf("%s: %s: %s", f.path, f.problem, f.text) }

var (
	fence       = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	frontMatter = regexp.MustCompile(`(?s)\A---\n.*?\n---\n`)
	code        = regexp.MustCompile("`[^`]*`")
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
	block       = regexp.MustCompile(`^\s*([-*] |[0-9]+\. |#|\||>|!\[|<)`)
	sentenceEnd = regexp.MustCompile(`[.!?:;]["')*]*(\s|$)`)
	word        = regexp.MustCompile(`[\pL\pN][\pL\pN'’-]*`)
)

// sentences returns the sentences of a Markdown page or a comment. Code counts as one word. A colon
// or a semicolon ends a sentence, as does an item of a list.
func sentences(markdown string) []string {
	text := fence.ReplaceAllString(frontMatter.ReplaceAllString(markdown, ""), "\n")
	text = linkTarget.ReplaceAllString(code.ReplaceAllString(text, "CODE"), "]")
	var out, paragraph []string
	end := func() {
		for _, s := range sentenceEnd.Split(strings.Join(paragraph, " "), -1) {
			if s = strings.TrimSpace(s); s != "" {
				out = append(out, s)
			}
		}
		paragraph = nil
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || block.MatchString(line) {
			end()
		}
		if strings.HasPrefix(line, "|") {
			for cell := range strings.SplitSeq(line, "|") {
				paragraph = append(paragraph, cell)
				end()
			}
		} else if line != "" {
			paragraph = append(paragraph, line)
		}
	}
	end()
	return out
}

// long returns the sentences of a page with more than maxWords words.
func long(path, markdown string) []finding {
	var out []finding
	for _, s := range sentences(markdown) {
		if n := len(word.FindAllString(s, -1)); n > maxWords {
			out = append(out, finding{path, s, fmt.Sprintf("%d words in a sentence", n)})
		}
	}
	return out
}

var unwantedWord = func() *regexp.Regexp {
	var all []string
	for w := range unwanted {
		all = append(all, regexp.QuoteMeta(w))
	}
	slices.Sort(all)
	return regexp.MustCompile(`(?i)\b(` + strings.Join(all, "|") + `)\b`)
}()

// words returns the unwanted words of a text.
func words(path, text string) []finding {
	var out []finding
	for _, w := range unwantedWord.FindAllString(code.ReplaceAllString(fence.ReplaceAllString(text, ""), ""), -1) {
		out = append(out, finding{path, w, "write " + unwanted[strings.ToLower(w)]})
	}
	return out
}

// files calls visit with the path and the content of each file of the extension below dir.
func files(t *testing.T, dir, extension string, visit func(path, content string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (strings.HasPrefix(name, ".") && name != ".." || name == "out" || name == "testdata") {
			return fs.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != extension {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(relative), string(content))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// commentDirs are the directories whose comments and messages are checked.
var commentDirs = []string{"agent", "agentapi", "api", "bmc", "cmd", "controllers", "hack", "internal", "inventory", "pxe", "runtimehooks", "webhooks"}

// generated are pages from the comments of the API, which TestCommentsAndMessages checks.
var generated = []string{"annotations.md", "api.md", "flags.md", "metrics.md", "reasons.md"}

// TestBook checks the pages of all parts.
func TestBook(t *testing.T) {
	var found []finding
	files(t, "docs/book", ".md", func(path, content string) {
		if dir := filepath.Base(filepath.Dir(path)); dir != "book" && !slices.Contains(generated, filepath.Base(path)) {
			found = append(found, long(path, content)...)
			found = append(found, words(path, content)...)
		}
	})
	report(t, "docs/book/", found)
}

// TestCommentsAndMessages checks comments and string literals outside of tests.
func TestCommentsAndMessages(t *testing.T) {
	var found []finding
	for _, dir := range commentDirs {
		files(t, dir, ".go", func(path, content string) {
			if strings.HasSuffix(path, "_test.go") {
				return
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if ast.IsGenerated(file) {
				return
			}
			for _, group := range file.Comments {
				found = append(found, words(path, group.Text())...)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					found = append(found, words(path, strings.Trim(literal.Value, "`"))...)
				}
				return true
			})
		})
	}
	report(t, "", found)
}

type exception struct{ path, text, reason string }

func exceptions(t *testing.T) []exception {
	t.Helper()
	content, err := os.ReadFile("exceptions.txt")
	if err != nil {
		t.Fatal(err)
	}
	var out []exception
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, " | ")
		if len(fields) != 3 || fields[2] == "" {
			t.Fatalf("exceptions.txt: not \"path | text | reason\": %s", line)
		}
		out = append(out, exception{fields[0], fields[1], fields[2]})
	}
	if len(out) > maxExceptions {
		t.Fatalf("exceptions.txt has %d entries, more than %d", len(out), maxExceptions)
	}
	return out
}

// report fails for each finding without an exception, and for each exception of docs/book, or of
// all other files if prefix is empty, without a finding.
func report(t *testing.T, prefix string, found []finding) {
	t.Helper()
	all := exceptions(t)
	used := map[exception]bool{}
	for _, f := range found {
		at := slices.IndexFunc(all, func(e exception) bool { return e.path == f.path && strings.HasPrefix(f.text, e.text) })
		if at < 0 {
			t.Error(f)
			continue
		}
		used[all[at]] = true
	}
	for _, e := range all {
		if inBook := strings.HasPrefix(e.path, "docs/book/"); !used[e] && inBook == (prefix != "") {
			t.Errorf("exceptions.txt: no finding for %s | %s", e.path, e.text)
		}
	}
}

func TestSentences(t *testing.T) {
	got := sentences("---\ntitle: x\n---\nFirst sentence,\nin `code.x` two lines. Second (v1.2) one: third.\n\n- An item\n- [A link](x.md#y)\n\n```sh\nno. text.\n```\n| a | b. c |\n")
	want := []string{"First sentence, in CODE two lines", "Second (v1.2) one", "third", "- An item", "- [A link]", "a", "b", "c"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := len(long("x", strings.Repeat("word ", maxWords)+".")); n != 0 {
		t.Errorf("%d findings at the limit", n)
	}
	if n := len(long("x", strings.Repeat("word ", maxWords+1)+".")); n != 1 {
		t.Errorf("%d findings above the limit, want 1", n)
	}
	if got := words("x", "Whoever names the `catalogue`. Anew, but renewal."); len(got) != 2 {
		t.Errorf("%v, want two words", got)
	}
}
