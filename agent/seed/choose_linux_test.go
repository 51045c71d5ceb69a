// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

var unmounted = []string{"!"}

// diskOf makes a disk of partitions with the named directories and files. A partition without
// names cannot be read, and one of "!" cannot be mounted.
func diskOf(t *testing.T, parts ...[]string) visitFunc {
	t.Helper()
	roots := make([]*os.Root, len(parts))
	for i, dirs := range parts {
		if slices.Equal(dirs, unmounted) {
			continue
		}
		root, dir := openRoot(t)
		for _, name := range dirs {
			path := filepath.Join(dir, name)
			err := os.MkdirAll(filepath.Dir(path), 0o755)
			if base := filepath.Base(name); base == "mdadm" || base == firstBoot {
				err = errors.Join(err, os.WriteFile(path, nil, 0o755))
			} else {
				err = errors.Join(err, os.MkdirAll(path, 0o755))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		roots[i] = root
	}
	return func(p partition, do func(*os.Root) error) error {
		if len(parts[p.number-1]) == 0 {
			return errUnread
		}
		if roots[p.number-1] == nil {
			return mountError(syscall.EINVAL)
		}
		return do(roots[p.number-1])
	}
}

// The image is at fault (ErrNoRoot) only if the whole disk was readable. The partition type
// alone does not suffice: a system without cloud-init would keep the secrets without using them.
func TestFindTarget(t *testing.T) {
	system, boot, broken := []string{"etc/cloud", "var/lib"}, []string{"grub"}, []string(nil)
	for name, c := range map[string]struct {
		parts [][]string
		typed int
		want  int
		err   error
		not   error
	}{
		"by content":                      {parts: [][]string{boot, system}, want: 2},
		"by type":                         {parts: [][]string{system, system}, typed: 2, want: 2},
		"type, without cloud-init":        {parts: [][]string{boot, {"etc", "var/lib"}}, typed: 2, err: ErrNoRoot},
		"type, /var elsewhere":            {parts: [][]string{boot, {"etc/cloud", "var"}}, typed: 2, err: ErrNoRoot},
		"content contradicts the type":    {parts: [][]string{system, {"etc", "var/lib"}}, typed: 2, want: 1},
		"type, cannot be mounted":         {parts: [][]string{boot, unmounted}, typed: 2, want: 2},
		"type, cannot be read":            {parts: [][]string{boot, broken}, typed: 2, want: 2},
		"found, another is unreadable":    {parts: [][]string{broken, system}, want: 2},
		"none":                            {parts: [][]string{boot, boot}, err: ErrNoRoot},
		"two":                             {parts: [][]string{system, system}, err: ErrNoRoot},
		"no partition":                    {err: ErrNoRoot},
		"none, one cannot be mounted":     {parts: [][]string{boot, unmounted}, err: ErrImage, not: ErrNoRoot},
		"one not mounted, one unreadable": {parts: [][]string{unmounted, broken}, err: errUnread, not: ErrImage},
		"none, one is unreadable":         {parts: [][]string{boot, broken}, err: errUnread, not: ErrNoRoot},
	} {
		t.Run(name, func(t *testing.T) {
			var parts []partition
			for i := range c.parts {
				parts = append(parts, partition{number: i + 1, isRoot: c.typed == i+1})
			}
			got, err := findTarget(parts, cloudInit, diskOf(t, c.parts...))
			if got.number != c.want || !errors.Is(err, c.err) || c.not != nil && errors.Is(err, c.not) {
				t.Errorf("partition %d, %v; want %d, %v", got.number, err, c.want, c.err)
			}
		})
	}
}

// The error names what the system lacks to assemble a mirror.
func TestCheckAssembly(t *testing.T) {
	for name, c := range map[string]struct {
		parts [][]string
		typed int
		want  error
	}{
		"cloud-init and mdadm":   {parts: [][]string{{"grub"}, {"etc/cloud", "var/lib", "usr/sbin/mdadm"}}},
		"no mdadm":               {parts: [][]string{{"grub"}, {"etc/cloud", "var/lib"}}, want: ErrNoAssembly},
		"no root":                {parts: [][]string{{"grub"}}, want: ErrNoRoot},
		"Ignition, typed root":   {parts: [][]string{{"ignition.firstboot"}, {"ostree"}}, typed: 2, want: ErrIgnition},
		"Ignition, untyped root": {parts: [][]string{{"ignition.firstboot"}, {"ostree"}}, want: ErrIgnition},
		"unreadable root":        {parts: [][]string{{"ignition.firstboot"}, nil}, typed: 2, want: errUnread},
	} {
		t.Run(name, func(t *testing.T) {
			var parts []partition
			for i := range c.parts {
				parts = append(parts, partition{number: i + 1, isRoot: c.typed == i+1})
			}
			if err := checkAssembly(parts, diskOf(t, c.parts...)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// Partitions that the kernel does not show are not the image's fault.
func TestPartitionsError(t *testing.T) {
	for name, c := range map[string]struct {
		inTable, inKernel int
		err               error
		image             bool
	}{
		"an image without a partition table": {image: true},
		"a partition is still missing":       {inTable: 3, inKernel: 2},
		"all are missing":                    {inTable: 3},
		"an unreadable node":                 {err: errUnread},
	} {
		t.Run(name, func(t *testing.T) {
			err := partitionsError("/dev/x", c.inTable, c.inKernel, c.err)
			if errors.Is(err, ErrNoRoot) != c.image || c.err != nil && !errors.Is(err, c.err) {
				t.Error(err)
			}
		})
	}
}
