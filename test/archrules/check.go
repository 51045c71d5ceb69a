// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package archrules

import (
	"fmt"
	"slices"
	"strings"
)

// Kind says in which files of a package an import stands.
type Kind int

const (
	Production Kind = iota // files that are shipped
	Test                   // files named _test.go
)

// Check returns an error with the reason if the package in directory dir (from
// the top of the module, with slashes) must not import the package of that
// path.
func Check(dir, path string, kind Kind) error {
	first, _, _ := strings.Cut(path, "/")
	switch {
	case path == Module || strings.HasPrefix(path, Module+"/"):
		return checkRoom(dir, strings.TrimPrefix(strings.TrimPrefix(path, Module), "/"), kind)
	case !strings.Contains(first, "."):
		return nil // the standard library, and "C"
	default:
		return checkHome(dir, path, kind)
	}
}

func checkRoom(dir, target string, kind Kind) error {
	r := roomOf(dir)
	if r == nil {
		return fmt.Errorf("%s has no row in the table of rooms: say there what it may import", dir)
	}
	allowed := append([]string{r.dir}, r.may...)
	if kind == Test {
		allowed = append(allowed, r.tests...)
	}
	if !withinAny(target, allowed) || roomOf(target) == nil {
		return fmt.Errorf("%s must not import %s: %s", dir, target, r.reason)
	}
	// A room inside another (cmd/agent in cmd) is not part of it.
	if inner := roomOf(target); within(inner.dir, r.dir) && inner.dir != r.dir && !slices.Contains(allowed, inner.dir) {
		return fmt.Errorf("%s must not import %s: %s", dir, target, inner.reason)
	}
	return nil
}

func checkHome(dir, path string, kind Kind) error {
	h := homeOf(path)
	switch {
	case h == nil:
		return fmt.Errorf("%s imports %s, which has no row in the table of homes: say there where it lives and why", dir, path)
	case within(dir, "test"), h.testsOnly && kind == Test, kind == Test && withinAny(dir, h.tests), withinAny(dir, h.in):
		return nil
	default:
		return fmt.Errorf("%s must not import %s, at home in %s: %s", dir, path, homeNames(h), h.reason)
	}
}

// CheckClean returns an error if the package in directory dir must not link a
// Kubernetes client and one of deps, the paths of all it links, is one.
func CheckClean(dir string, deps []string) error {
	if !withinAny(dir, cleanRooms) {
		return nil
	}
	for _, dep := range deps {
		if withinAny(dep, clients) {
			return fmt.Errorf("%s must not link a Kubernetes client, but through its imports it links %s (see go list -deps)", dir, dep)
		}
	}
	return nil
}

// CheckMaintained returns an error if the package in directory dir is a program's and one of
// deps, the paths of all it links, is of a module that has no owner.
func CheckMaintained(dir string, deps []string) error {
	if !withinAny(dir, programs) {
		return nil
	}
	for _, u := range unmaintained {
		if i := slices.IndexFunc(deps, func(dep string) bool { return within(dep, u.module) }); i >= 0 {
			return fmt.Errorf("%s must not link %s: %s (see go mod why %s)", dir, deps[i], u.reason, deps[i])
		}
	}
	return nil
}

func homeNames(h *home) string {
	if h.testsOnly {
		return "tests"
	}
	return strings.Join(h.in, ", ")
}

// roomOf returns the innermost room that holds dir, or nil.
func roomOf(dir string) *room {
	var found *room
	for i := range rooms {
		if within(dir, rooms[i].dir) && (found == nil || len(rooms[i].dir) > len(found.dir)) {
			found = &rooms[i]
		}
	}
	return found
}

// homeOf returns the most exact home of an import path, or nil.
func homeOf(path string) *home {
	var found *home
	for i := range homes {
		if within(path, homes[i].library) && (found == nil || len(homes[i].library) > len(found.library)) {
			found = &homes[i]
		}
	}
	return found
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

func withinAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return within(path, dir) })
}
