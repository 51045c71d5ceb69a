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

// InsertFunc puts one module file into the kernel. A module that is there
// already is no error.
type InsertFunc func(file fs.File, parameters string) error

// Set is the modules that can be loaded. It is for one goroutine.
type Set struct {
	root   fs.FS
	insert InsertFunc
	// before lists what each module needs, in the order of loading.
	before  map[string][]string
	aliases []alias
	loaded  map[string]bool
	// seen are the modaliases already answered.
	seen map[string]bool
}

// softMark precedes a module in the order list whose failure does not matter.
const softMark = "?"

type alias struct{ pattern, module string }

// parameters are set where a default does not suit the agent: a SCSI controller
// scans before its module's loading returns, so that its disks are there then.
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

// Match returns the modules for a modalias, in the order of the list.
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

// sameBus compares what is before the colon, which has no wildcard: most patterns
// are for another bus, and this is cheaper than matching.
func sameBus(pattern, modalias string) bool {
	i := strings.IndexByte(pattern, ':')
	return i < 0 || strings.HasPrefix(modalias, pattern[:i+1])
}

// Load loads a module and what it needs. One that the set does not have is taken
// to be built into the kernel.
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
		// A soft dependency may be for a processor that this is not (crc32c_intel).
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

// Settle loads the modules that the devices in sysfs ask for, and those that the
// devices ask for which appear by that. Errors are collected: one device without a
// driver does not keep the others from theirs. It returns how many modules were
// loaded.
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

// modaliases reads what every device on every bus calls itself.
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
