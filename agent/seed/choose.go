// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// ErrNoRoot reports that all partitions were readable, and that not exactly one is the root
// file system of a supported system.
var ErrNoRoot = errors.New("no root file system found on the installed disk")

// partition of the installed disk.
type partition struct {
	number     int
	device     string
	fileSystem string
	// readErr is why the file system could not be determined.
	readErr error
	isRoot  bool
}

// visitFunc calls do with the root directory of a partition's file system, mounted read-only.
type visitFunc func(p partition, do func(*os.Root) error) error

// findTarget returns the partition for the first-boot data. For a root file system it is the
// only partition typed as root, unless its content does not match; else it is the only
// partition whose content matches. It returns ErrNoRoot only if all partitions could be
// examined: read errors are not the image's fault, mount errors are if they wrap ErrImage.
func findTarget(parts []partition, to target, visit visitFunc) (partition, error) {
	var typed, found []partition
	for _, p := range parts {
		if p.isRoot && to.onRoot {
			typed = append(typed, p)
		}
	}
	matches := func(p partition) (match bool, err error) {
		err = visit(p, func(dir *os.Root) error {
			match = to.matches(dir)
			return nil
		})
		return match, err
	}
	if len(typed) == 1 {
		// An unreadable one is still the root: writing to it reports the error.
		if match, err := matches(typed[0]); match || err != nil {
			return typed[0], nil
		}
	}
	var readErrs []error
	for _, p := range parts {
		switch match, err := matches(p); {
		case err != nil:
			readErrs = append(readErrs, err)
		case match:
			found = append(found, p)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	detail := fmt.Sprintf("%d partitions with ext4 or xfs, %d typed as root, %d %s", len(parts), len(typed), len(found), to.name)
	isImageError := func(err error) bool { return errors.Is(err, ErrImage) }
	if others := slices.DeleteFunc(slices.Clone(readErrs), isImageError); len(others) > 0 {
		readErrs = others // the root may be on a partition that the server cannot read
	}
	if len(readErrs) > 0 {
		return partition{}, fmt.Errorf("find the root file system (%s): %w", detail, errors.Join(readErrs...))
	}
	return partition{}, fmt.Errorf("%w: %s", ErrNoRoot, detail)
}

// checkAssembly checks that the root file system contains mdadm. If root or mdadm is missing,
// it returns ErrIgnition for a system that Ignition configures.
func checkAssembly(parts []partition, visit visitFunc) error {
	root, err := findTarget(parts, cloudInit, visit)
	if err == nil {
		err = visit(root, checkMDADM)
	}
	if !errors.Is(err, ErrNoRoot) && !errors.Is(err, ErrNoAssembly) {
		return err
	}
	if _, other := findTarget(parts, ignition, visit); other == nil {
		return ErrIgnition
	}
	return err
}
