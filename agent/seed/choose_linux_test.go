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

	"github.com/ingot-metal/ingot/agentapi"
)

var unmounted = []string{"!"}

// diskOf makes a disk of partitions, each with the directories named, or files where the
// agent looks for one; one with none cannot be read, and one of "!" cannot be mounted.
func diskOf(t *testing.T, parts ...[]string) look {
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
			return mounting(syscall.EINVAL)
		}
		return do(roots[p.number-1])
	}
}

// The image is to blame only where all of the disk was read (ErrNoRoot). A type alone makes
// no root: what does not read the seed would never become a node, and keep the secrets.
func TestChoose(t *testing.T) {
	system, boot, broken := []string{"etc/cloud", "var/lib"}, []string{"grub"}, []string(nil)
	for name, c := range map[string]struct {
		parts [][]string
		typed int
		want  int
		err   error
		not   error
	}{
		"by its content":                    {parts: [][]string{boot, system}, want: 2},
		"by its type":                       {parts: [][]string{system, system}, typed: 2, want: 2},
		"its type, without cloud-init":      {parts: [][]string{boot, {"etc", "var/lib"}}, typed: 2, err: ErrNoRoot},
		"its type, and /var elsewhere":      {parts: [][]string{boot, {"etc/cloud", "var"}}, typed: 2, err: ErrNoRoot},
		"another than the one of the type":  {parts: [][]string{system, {"etc", "var/lib"}}, typed: 2, want: 1},
		"its type, and it is not mounted":   {parts: [][]string{boot, unmounted}, typed: 2, want: 2},
		"its type, and it cannot be read":   {parts: [][]string{boot, broken}, typed: 2, want: 2},
		"found beside one that is not read": {parts: [][]string{broken, system}, want: 2},
		"none":                              {parts: [][]string{boot, boot}, err: ErrNoRoot},
		"two":                               {parts: [][]string{system, system}, err: ErrNoRoot},
		"no partition":                      {err: ErrNoRoot},
		"none, and one cannot be mounted":   {parts: [][]string{boot, unmounted}, err: ErrImage, not: ErrNoRoot},
		"not mounted, and not read":         {parts: [][]string{unmounted, broken}, err: errUnread, not: ErrImage},
		"none, and one cannot be read":      {parts: [][]string{boot, broken}, err: errUnread, not: ErrNoRoot},
	} {
		t.Run(name, func(t *testing.T) {
			how, err := kindOf(agentapi.Bootstrap{})
			if err != nil {
				t.Fatal(err)
			}
			var parts []partition
			for i := range c.parts {
				parts = append(parts, partition{number: i + 1, isRoot: c.typed == i+1})
			}
			got, err := choose(parts, how, diskOf(t, c.parts...))
			if got.number != c.want || !errors.Is(err, c.err) || c.not != nil && errors.Is(err, c.not) {
				t.Errorf("partition %d, %v; want %d, %v", got.number, err, c.want, c.err)
			}
		})
	}
}

// The files of partitions say whether the system assembles a mirror, and what it lacks.
func TestAssembly(t *testing.T) {
	for name, c := range map[string]struct {
		parts [][]string
		typed int
		want  error
	}{
		"cloud-init and mdadm":              {parts: [][]string{{"grub"}, {"etc/cloud", "var/lib", "usr/sbin/mdadm"}}},
		"no mdadm":                          {parts: [][]string{{"grub"}, {"etc/cloud", "var/lib"}}, want: ErrNoAssembly},
		"no root":                           {parts: [][]string{{"grub"}}, want: ErrNoRoot},
		"Ignition, a root that is typed":    {parts: [][]string{{"ignition.firstboot"}, {"ostree"}}, typed: 2, want: ErrIgnition},
		"Ignition, a root that has no type": {parts: [][]string{{"ignition.firstboot"}, {"ostree"}}, want: ErrIgnition},
		"the root cannot be read":           {parts: [][]string{{"ignition.firstboot"}, nil}, typed: 2, want: errUnread},
	} {
		t.Run(name, func(t *testing.T) {
			var parts []partition
			for i := range c.parts {
				parts = append(parts, partition{number: i + 1, isRoot: c.typed == i+1})
			}
			if err := assembly(parts, diskOf(t, c.parts...)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// What the kernel does not show is no fault of the image.
func TestMissing(t *testing.T) {
	for name, c := range map[string]struct {
		inTable, inKernel int
		err               error
		image             bool
	}{
		"an image without a partition table": {image: true},
		"a partition is not there yet":       {inTable: 3, inKernel: 2},
		"none is":                            {inTable: 3},
		"a node cannot be read":              {err: errUnread},
	} {
		t.Run(name, func(t *testing.T) {
			err := missing("/dev/x", c.inTable, c.inKernel, c.err)
			if errors.Is(err, ErrNoRoot) != c.image || c.err != nil && !errors.Is(err, c.err) {
				t.Error(err)
			}
		})
	}
}
