// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package kmod

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// InsertFunc inserts one module file into the kernel. An inserted module is no error.
type InsertFunc func(file fs.File, parameters string) error

// Set is a set of modules. It is for one goroutine.
type Set struct {
	root   fs.FS
	insert InsertFunc
	// before lists the prerequisites of each module, in load order.
	before  map[string][]string
	aliases []alias
	loaded  map[string]bool
	// seen are the modaliases that were handled.
	seen map[string]bool
}

// softMark marks a prerequisite in the order file that may fail.
const softMark = "?"

type alias struct{ pattern, module string }

// parameters returns module parameters: with scan=sync the load of a SCSI controller's module
// returns after its disks were found.
func parameters(module string) string {
	if module == "scsi_mod" {
		return "scan=sync"
	}
	return ""
}

// Open reads the lists of a set of modules.
func Open(root fs.FS, insert InsertFunc) (*Set, error) {
	order, err := fs.ReadFile(root, "order")
	if err != nil {
		return nil, fmt.Errorf("read the module set: %w", err)
	}
	aliases, err := fs.ReadFile(root, "alias")
	if err != nil {
		return nil, fmt.Errorf("read the module set: %w", err)
	}
	return &Set{
		root: root, insert: insert, before: parseOrder(string(order)), aliases: parseAliases(string(aliases)),
		loaded: map[string]bool{}, seen: map[string]bool{},
	}, nil
}

func parseOrder(s string) map[string][]string {
	out := map[string][]string{}
	for line := range strings.Lines(s) {
		if name, before, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[name] = strings.Fields(before)
		}
	}
	return out
}

func parseAliases(s string) []alias {
	var out []alias
	for line := range strings.Lines(s) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "alias" {
			out = append(out, alias{pattern: f[1], module: f[2]})
		}
	}
	return out
}

// Match returns the modules for a modalias, in the order of the alias file.
func (s *Set) Match(modalias string) []string {
	var out []string
	for _, a := range s.aliases {
		if !sameBus(a.pattern, modalias) {
			continue
		}
		if ok, err := path.Match(a.pattern, modalias); err == nil && ok {
			out = append(out, a.module)
		}
	}
	return out
}

// sameBus compares the part before the colon, which has no wildcard. It quickly excludes most
// patterns.
func sameBus(pattern, modalias string) bool {
	i := strings.IndexByte(pattern, ':')
	return i < 0 || strings.HasPrefix(modalias, pattern[:i+1])
}

// Load loads a module and its prerequisites. A module that is not in the set counts as built
// into the kernel.
func (s *Set) Load(name string) (err error) {
	if s.loaded[name] {
		return nil
	}
	before, known := s.before[name]
	if !known {
		return nil
	}
	s.loaded[name] = true
	defer func() {
		if err != nil {
			delete(s.loaded, name)
		}
	}()
	for _, dep := range before {
		// A soft prerequisite may be for another processor (crc32c_intel).
		dep, soft := strings.CutPrefix(dep, softMark)
		if err := s.Load(dep); err != nil && !soft {
			return err
		}
	}
	file, err := s.root.Open(name + ".ko")
	if err != nil {
		return fmt.Errorf("load module %s: %w", name, err)
	}
	defer file.Close()
	if err := s.insert(file, parameters(name)); err != nil {
		return fmt.Errorf("load module %s: %w", name, err)
	}
	return nil
}

// Settle loads the modules for all devices in sysfs, repeatedly while new devices appear, and
// returns the number of modules loaded. It continues after errors and returns them all.
func (s *Set) Settle(sysfs fs.FS) (int, error) {
	var errs []error
	start := len(s.loaded)
	for {
		before := len(s.loaded)
		for _, modalias := range modaliases(sysfs) {
			if s.seen[modalias] {
				continue
			}
			s.seen[modalias] = true
			for _, name := range s.Match(modalias) {
				if err := s.Load(name); err != nil {
					errs = append(errs, err)
				}
			}
		}
		if len(s.loaded) == before {
			return before - start, errors.Join(errs...)
		}
	}
}

// modaliases returns the modaliases of all devices.
func modaliases(sysfs fs.FS) []string {
	files, err := fs.Glob(sysfs, "bus/*/devices/*/modalias")
	if err != nil {
		return nil
	}
	var out []string
	for _, file := range files {
		if b, err := fs.ReadFile(sysfs, file); err == nil {
			out = append(out, strings.TrimSpace(string(b)))
		}
	}
	return out
}
