// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reasonOfEventf is where events.EventRecorder.Eventf has the reason.
const reasonOfEventf = 3

// tellers decide or say what people are told by events and conditions.
var tellers = []string{"../../controllers", "../../inventory", "../../runtimehooks"}

// Every reason of an event or a condition is a constant of the API, so that hack/docs finds it.
func TestReasonsAreConstants(t *testing.T) {
	told := 0
	for _, top := range tellers {
		for dir, files := range packages(t, top) {
			p := newReasonCheck(files)
			for _, bad := range p.bad() {
				t.Errorf("%s: %s; declare it as a Reason… of api/v1beta2, with a comment as hack/docs requires", dir, bad)
			}
			told += p.told
		}
	}
	if told < 40 {
		t.Errorf("only %d places were found that give a reason", told)
	}
}

// The check itself: what it must find, and what it must let be.
func TestReasonCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		source string
		want   []string
	}{
		"a constant of the API": {`func f() { r.Recorder.Eventf(o, nil, "Normal", infrav1.ReasonX, action, "%s", m) }`, nil},
		"a literal":             {`func f() { r.Recorder.Eventf(o, nil, "Normal", "Boom", action, "%s", m) }`, []string{`"Boom"`}},
		"a part of one":         {`func f() { r.Recorder.Eventf(o, nil, "Normal", string(kind)+"Failed", action, "%s", m) }`, []string{`"Failed"`}},
		"a constant of its own": {"const boom = \"Boom\"\nfunc f() { r.Recorder.Eventf(o, nil, \"Normal\", boom, action, \"%s\", m) }", []string{`"Boom"`}},
		"through a function": {`func (r *R) note(h H, reason, message string) { r.Recorder.Eventf(h, nil, "Normal", reason, action, "%s", message) }
			func f() { r.note(h, "Boom", "words") }`, []string{`"Boom"`}},
		"through two": {`func (r *R) note(h H, reason, message string) { r.Recorder.Eventf(h, nil, "Normal", reason, action, "%s", message) }
			func end(reason string) { r.note(h, reason, "words") }
			func f() { end("Boom") }`, []string{`"Boom"`}},
		"a variable": {`func f() { reason := "Boom"; r.Recorder.Eventf(o, nil, "Normal", reason, action, "%s", m) }`, []string{`"Boom"`}},
		"a variable, later": {`func f() { reason := infrav1.ReasonX
			if bad { reason = "Boom" }
			r.Recorder.Eventf(o, nil, "Normal", reason, action, "%s", m) }`, []string{`"Boom"`}},
		"what a function says": {`func why() (string, string) { return "Boom", "words" }
			func f() { reason, m := why(); r.Recorder.Eventf(o, nil, "Normal", reason, action, "%s", m) }`, []string{`"Boom"`}},
		"a field":           {`var d = Decision{Reason: "Boom"}`, []string{`"Boom"`}},
		"a field, assigned": {`func f() { d.Reason = "Boom" }`, []string{`"Boom"`}},
		"no reason at all":  {`func f() { d.Reason = ""; log.Info("Boom", "reason", why) }`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+tc.source, 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, newReasonCheck([]*ast.File{file}).bad()); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// packages are the files below a directory, by directory, without tests.
func packages(t *testing.T, top string) map[string][]*ast.File {
	t.Helper()
	found := map[string][]*ast.File{}
	if _, err := os.Stat(top); os.IsNotExist(err) {
		return found
	}
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return fmt.Errorf("parse %s: %w", path, err)
		}
		found[filepath.Dir(path)] = append(found[filepath.Dir(path)], file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// reasonCheck looks for reasons in the files of one package.
type reasonCheck struct {
	files []*ast.File
	// tells says which argument of a function, or method, is a reason.
	tells map[string]int
	// literals are the package's own constants.
	literals map[string]*ast.BasicLit
	// told counts the places that give a reason.
	told  int
	found map[string]bool
	list  []string
}

func newReasonCheck(files []*ast.File) *reasonCheck {
	c := &reasonCheck{files: files, tells: map[string]int{"Eventf": reasonOfEventf}, literals: map[string]*ast.BasicLit{}, found: map[string]bool{}}
	c.each(func(n ast.Node) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != len(spec.Values) {
			return
		}
		for i, value := range spec.Values {
			if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				c.literals[spec.Names[i].Name] = literal
			}
		}
	})
	for known := 0; known != len(c.tells); { // until nobody hands a reason on to one that is known
		known = len(c.tells)
		c.functions(c.findTeller)
	}
	return c
}

func (c *reasonCheck) each(visit func(ast.Node)) {
	for _, file := range c.files {
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
}

func (c *reasonCheck) functions(visit func(*ast.FuncDecl)) {
	c.each(func(n ast.Node) {
		if f, ok := n.(*ast.FuncDecl); ok && f.Body != nil {
			visit(f)
		}
	})
}

// findTeller notes a function that hands one of its parameters on as a reason.
func (c *reasonCheck) findTeller(f *ast.FuncDecl) {
	at := 0
	for _, field := range f.Type.Params.List {
		for _, name := range field.Names {
			for _, given := range c.givenIn(f.Body) {
				if id, ok := given.(*ast.Ident); ok && id.Name == name.Name {
					c.tells[f.Name.Name] = at
				}
			}
			at++
		}
	}
}

// givenIn are the reasons that calls in a body are given.
func (c *reasonCheck) givenIn(body ast.Node) []ast.Expr {
	var given []ast.Expr
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if at, tells := c.tells[called(call)]; tells && at < len(call.Args) {
			given = append(given, call.Args[at])
		}
		return true
	})
	return given
}

// bad are the reasons that are no constants of the API.
func (c *reasonCheck) bad() []string {
	c.functions(func(f *ast.FuncDecl) {
		for _, reason := range c.givenIn(f.Body) {
			c.told++
			c.judge(reason)
			if id, ok := reason.(*ast.Ident); ok {
				c.assigned(f.Body, id.Name)
			}
		}
	})
	c.each(func(n ast.Node) {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "reason") {
				c.told++
				c.judge(n.Value)
			}
		case *ast.AssignStmt:
			for i, to := range n.Lhs {
				if field, ok := to.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) && strings.EqualFold(field.Sel.Name, "reason") {
					c.told++
					c.judge(n.Rhs[i])
				}
			}
		}
	})
	return c.list
}

// assigned judges what a variable of a function is given.
func (c *reasonCheck) assigned(body ast.Node, name string) {
	ast.Inspect(body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i, to := range assign.Lhs {
			if id, ok := to.(*ast.Ident); !ok || id.Name != name {
				continue
			}
			if len(assign.Lhs) == len(assign.Rhs) {
				c.judge(assign.Rhs[i])
			} else if call, ok := assign.Rhs[0].(*ast.CallExpr); ok {
				c.returned(called(call), i)
			}
		}
		return true
	})
}

// returned judges one result of the package's functions of a name.
func (c *reasonCheck) returned(name string, at int) {
	c.functions(func(f *ast.FuncDecl) {
		if f.Name.Name != name {
			return
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if given, ok := n.(*ast.ReturnStmt); ok && at < len(given.Results) {
				c.judge(given.Results[at])
			}
			return true
		})
	})
}

// called is the name of the function, or method, that a call is of.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// judge looks for text in an expression, its own or that of the package's constants.
// What a function is called with is no reason.
func (c *reasonCheck) judge(reason ast.Expr) {
	ast.Inspect(reason, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			id, ok := n.Fun.(*ast.Ident)
			return ok && id.Name == "string" // a conversion
		case *ast.SelectorExpr:
			return false
		case *ast.Ident:
			if literal, own := c.literals[n.Name]; own {
				c.blame(literal)
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING {
				c.blame(n)
			}
		}
		return true
	})
}

func (c *reasonCheck) blame(literal *ast.BasicLit) {
	if literal.Value != `""` && !c.found[literal.Value] {
		c.found[literal.Value] = true
		c.list = append(c.list, literal.Value)
	}
}
