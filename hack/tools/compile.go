// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Build builds the named groups that are not built yet, and logs its progress. Without names it
// builds the groups for everyday tests. Concurrent builds in one cache wait for each other.
func (s *Set) Build(ctx context.Context, log io.Writer, names ...string) error {
	for _, name := range names {
		if !slices.ContainsFunc(groups(), func(g group) bool { return g.name == name }) {
			return fmt.Errorf("no group of tools is called %q", name)
		}
	}
	for _, g := range groups() {
		if len(names) == 0 && g.onRequest || len(names) > 0 && !slices.Contains(names, g.name) {
			continue
		}
		if err := s.buildGroup(ctx, log, g); err != nil {
			return fmt.Errorf("build the tools of hack/tools/%s: %w", g.name, err)
		}
	}
	return nil
}

// Dirs returns the directories of all groups, built or not, for PATH.
func (s *Set) Dirs() ([]string, error) {
	var dirs []string
	for _, g := range groups() {
		dir, err := s.dir(g)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, nil
}

func (s *Set) buildGroup(ctx context.Context, log io.Writer, g group) error {
	final, err := s.dir(g)
	if err != nil {
		return err
	}
	if exists(final) {
		return nil
	}
	unlock, err := lock(filepath.Join(s.cache, "tools", ".lock-"+g.name))
	if err != nil {
		return err
	}
	defer unlock()
	if exists(final) { // built while this process waited
		return nil
	}
	tmp, err := os.MkdirTemp(filepath.Dir(final), ".build-"+g.name+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // gone already after the rename
	if err := s.compile(ctx, log, g, tmp); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o755); err != nil { // MkdirTemp makes it private
		return err
	}
	return os.Rename(tmp, final)
}

// compile builds every program of the group into dir and links its aliases.
func (s *Set) compile(ctx context.Context, log io.Writer, g group, dir string) error {
	version, err := s.Version(g.name, g.pin)
	if err != nil {
		return err
	}
	env, err := BuildEnv()
	if err != nil {
		return err
	}
	for _, p := range g.programs {
		start := time.Now()
		fmt.Fprintf(log, "tools: building %s %s\n", p.file, version)
		args := append([]string{"build", "-o", filepath.Join(dir, p.file)}, g.flags(version)...)
		cmd := exec.CommandContext(ctx, "go", append(args, p.pkg)...)
		cmd.Dir = s.source(g.name)
		// Build for this machine even if the caller cross-compiles.
		cmd.Env = append(append(os.Environ(), env...), "GOOS=", "GOARCH=")
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: go %s: %w", p.file, strings.Join(cmd.Args[1:], " "), err)
		}
		fmt.Fprintf(log, "tools: %s took %s\n", p.file, time.Since(start).Round(time.Second))
		for _, alias := range p.aliases {
			if err := os.Symlink(p.file, filepath.Join(dir, alias)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lock takes an exclusive lock on a file, which it creates with its directory, and waits for other
// holders. The kernel releases the lock when the process ends.
func lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
