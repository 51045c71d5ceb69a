// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroups are the control groups of a node, one directory per hierarchy. They keep two kubelets from
// managing each other's pods.
type cgroups struct{ dirs []string }

// newCgroups creates a control group in every mounted hierarchy of version 1 and 2.
func newCgroups(name string) (*cgroups, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("find the control groups: %w", err)
	}
	made := &cgroups{}
	for _, hierarchy := range hierarchies(mounts) {
		dir := filepath.Join(hierarchy, name)
		if err := made.add(dir, hierarchy); err != nil {
			return nil, errors.Join(fmt.Errorf("create control group %s: %w", dir, err), made.remove(context.Background()))
		}
	}
	if len(made.dirs) == 0 {
		return nil, errors.New("no control groups are mounted")
	}
	return made, nil
}

// hierarchies returns the mount points of control groups (proc_mounts(5)).
func hierarchies(mounts []byte) []string {
	var found []string
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") && !slices.Contains(found, fields[1]) {
			found = append(found, fields[1])
		}
	}
	return found
}

// add creates a group. An existing group belongs to a node that was killed, because this node has the
// link with its name. A group with processes cannot be removed and is an error.
func (c *cgroups) add(dir, hierarchy string) error {
	if err := removeGroup(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	c.dirs = append(c.dirs, dir)
	// In version 1 a new group has no processors and memory nodes, so no process can join it. In
	// version 2 it inherits both.
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(hierarchy, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// remove removes the groups and their children. The kernel may need a moment to release processes that
// have just ended.
func (c *cgroups) remove(ctx context.Context) error {
	return poll(ctx, "the end of the control groups", nil, func(context.Context) error {
		var errs []error
		for _, dir := range c.dirs {
			errs = append(errs, removeGroup(dir))
		}
		return errors.Join(errs...)
	})
}

// removeGroup removes a group, children first. The kernel removes its files.
func removeGroup(dir string) error {
	var all []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, path := range slices.Backward(all) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
