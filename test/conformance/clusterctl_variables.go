// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"maps"
	"regexp"
	"strings"
)

const (
	installBook   = "docs/book/reference/variables.md"
	templatesBook = "docs/book/reference/variables.md"
	moveBook      = "docs/book/tasks/move.md"
)

var (
	// expression is anything that clusterctl would substitute.
	expression = regexp.MustCompile(`\$\{[^}]*\}+`)
	// substitution is one of the forms ${VAR}, ${VAR:=d}, ${VAR=d}, ${VAR:-d}, or one
	// of the functions on values that the library has besides.
	substitution = regexp.MustCompile(`^\$\{\s*([A-Za-z0-9_]+)\s*((:=|=|:-|##?|%%?|//?|\^\^?|,,?|:[0-9]).*)?\}$`)
	// nested is a variable in the name of another.
	nested = regexp.MustCompile(`^\$\{\s*[A-Za-z0-9_]*\$`)
	// variable is a name that clusterctl finds in environment and configuration file.
	variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	// ownPrefix begins the names of the components' variables.
	ownPrefix = "INGOT_"
)

// variableRules are the rules of variables (K23–K27).
func variableRules() []Rule {
	return []Rule{
		{
			ID: "K23", Level: Should, Tag: TagRelease, Text: "variables are ${VAR}, with the provider's prefix",
			Check: ofEachPart(func(_ *Shipped, of part) error {
				var p problems
				for _, name := range of.installed.Variables {
					p.unless(strings.HasPrefix(name, ownPrefix), "variable %s does not begin with %s", name, ownPrefix)
				}
				return p.err()
			}),
			Break: func(s *Shipped) {
				s.Installed.Variables = append(s.Installed.Variables, "BOOT_ADDRESS")
				s.Docs[installBook] += "BOOT_ADDRESS"
			},
		},
		{
			ID: "K24", Level: Should, Tag: TagRelease, Text: "no spaces around their names",
			Check: func(s *Shipped) error {
				return s.expressions(func(e string) bool {
					m := substitution.FindStringSubmatch(e)
					return m == nil || strings.HasPrefix(e, "${"+m[1]) && (m[2] != "" || e == "${"+m[1]+"}")
				})
			},
			Break: func(s *Shipped) { s.Files[componentsFile] += "# ${ INGOT_BOOT_ADDRESS }\n" },
		},
		{
			ID: "K25", Level: Must, Tag: TagRelease, Text: "no variable in the name of another",
			Check: func(s *Shipped) error {
				return s.expressions(func(e string) bool {
					return !nested.MatchString(e)
				})
			},
			Break: func(s *Shipped) { s.Files[componentsFile] += "# ${INGOT_BOOT$INGOT_ADDRESS}\n" },
		},
		{
			ID: "K26", Level: Must, Tag: TagRelease, Text: "defaults have a form that clusterctl knows, and all have one in the components",
			Check: func(s *Shipped) error {
				p := problems{}
				if err := s.expressions(func(e string) bool {
					return substitution.MatchString(e) || nested.MatchString(e)
				}); err != nil {
					p = append(p, err)
				}
				for _, of := range s.parts() {
					for _, o := range of.installed.Objects {
						walk(withoutSchemas(&o).Object, "", func(path string, v any) {
							leaf, _ := v.(string)
							p.unless(!expression.MatchString(leaf), "%s: %s is %q after substitution", keyOf(&o), path, leaf)
						})
					}
				}
				return p.err()
			},
			Break: func(s *Shipped) { s.Files[componentsFile] += "# ${INGOT_BOOT_ADDRESS:?needed}\n" },
		},
		{
			ID: "K27", Level: Should, Tag: TagRelease, Text: "the components' variables are UPPER_CASE and documented",
			Check: ofEachPart(func(s *Shipped, of part) error {
				var p problems
				p.unless(len(of.installed.Variables) > 0, "clusterctl finds no variable")
				for _, name := range of.installed.Variables {
					p.unless(variable.MatchString(name), "variable %s is not upper case", name)
					p.unless(strings.Contains(s.Docs[of.book], name), "%s does not tell of %s", of.book, name)
				}
				return p.err()
			}),
			Break: func(s *Shipped) {
				s.Docs[installBook] = strings.ReplaceAll(s.Docs[installBook], s.Installed.Variables[0], "")
			},
		},
	}
}

// expressions checks everything that clusterctl would substitute, in the components
// and in the templates.
func (s *Shipped) expressions(ok func(string) bool) error {
	var p problems
	seen := 0
	files := maps.Clone(s.Files)
	for _, of := range s.parts() {
		files[of.file] = of.files[of.file]
	}
	for name, content := range files {
		if name != componentsFile && !strings.HasSuffix(name, "-components.yaml") && !templateFile.MatchString(name) {
			continue
		}
		for _, e := range expression.FindAllString(content, -1) {
			seen++
			p.unless(ok(e), "%s: %s", name, e)
		}
	}
	p.unless(seen > 0, "no file has a variable")
	return p.err()
}
