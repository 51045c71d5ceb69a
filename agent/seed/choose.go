// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/ingot-metal/ingot/agentapi"
)

// ErrNoRoot says that all partitions were looked into, and that not exactly one is the
// root of a system.
var ErrNoRoot = errors.New("no root file system found on the installed disk")

// partition of the installed disk.
type partition struct {
	number     int
	device     string
	fileSystem string
	// unread: why it is not known what file system it has.
	unread error
	isRoot bool
}

// look calls do with the root of a partition's file system, to be read only.
type look func(p partition, do func(*os.Root) error) error

// choose takes the one partition whose type says root, where a root is looked for, unless
// it is seen that it is not what is looked for; without one, the only partition that is when
// mounted. It fails with ErrNoRoot only where each could be looked into: what cannot be read
// is no fault of the image, and what cannot be mounted is one where it says ErrImage.
func choose(parts []partition, how kind, look look) (partition, error) {
	var typed, found []partition
	for _, p := range parts {
		if p.isRoot && how.onRoot {
			typed = append(typed, p)
		}
	}
	holds := func(p partition) (system bool, err error) {
		err = look(p, func(dir *os.Root) error {
			system = how.holds(dir)
			return nil
		})
		return system, err
	}
	if len(typed) == 1 {
		// One that cannot be read is the root still, and whoever writes to it says why.
		if system, err := holds(typed[0]); system || err != nil {
			return typed[0], nil
		}
	}
	var unread []error
	for _, p := range parts {
		switch system, err := holds(p); {
		case err != nil:
			unread = append(unread, err)
		case system:
			found = append(found, p)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	why := fmt.Sprintf("%d partitions with ext4 or xfs, %d typed as root, %d %s", len(parts), len(typed), len(found), how.name)
	if others := slices.DeleteFunc(slices.Clone(unread), ofImage); len(others) > 0 {
		unread = others // the root may be where the server is to blame
	}
	if len(unread) > 0 {
		return partition{}, fmt.Errorf("look for a root file system (%s): %w", why, errors.Join(unread...))
	}
	return partition{}, fmt.Errorf("%w: %s", ErrNoRoot, why)
}

// assembly looks for the root and in it for what assembles a software RAID. Where either
// is missing, a system that Ignition sets up is told from an image that lacks something.
func assembly(parts []partition, look look) error {
	how, err := kindOf(agentapi.Bootstrap{})
	if err != nil {
		return err
	}
	root, err := choose(parts, how, look)
	if err == nil {
		err = look(root, assembles)
	}
	if !errors.Is(err, ErrNoRoot) && !errors.Is(err, ErrNoAssembly) {
		return err
	}
	ignition, other := kindOf(agentapi.Bootstrap{Format: agentapi.FormatIgnition})
	if other == nil {
		_, other = choose(parts, ignition, look)
	}
	if other == nil {
		return ErrIgnition
	}
	return err
}
