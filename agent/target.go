// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/raid"
	"github.com/ingot-metal/ingot/agentapi"
)

// target is where an image is installed: one disk, or the members of a mirror with the
// order's RootDisk first.
type target struct{ disks []agentapi.Disk }

func (t target) mirrored() bool { return len(t.disks) > 1 }

// String names the disks, for messages.
func (t target) String() string {
	if !t.mirrored() {
		return t.disks[0].Name
	}
	var names []string
	for _, disk := range t.disks {
		names = append(names, disk.Name)
	}
	return "mirror of " + strings.Join(names, " and ")
}

// pickAll returns the disks that an order names, exactly one for each reference (I12).
func (s *session) pickAll(ctx context.Context, order agentapi.InstallOrder) (target, error) {
	disks, err := s.listDisks(ctx)
	if err != nil {
		return target{}, err
	}
	var to target
	for _, ref := range append([]agentapi.DiskRef{order.RootDisk}, order.MirrorDisks...) {
		disk, err := pickDisk(disks, ref)
		if err != nil {
			return target{}, err
		}
		if slices.ContainsFunc(to.disks, func(other agentapi.Disk) bool { return other.Name == disk.Name }) {
			return target{}, failuref(ReasonDiskAmbiguous, "%s is named as two members of one mirror: %s", disk.Name, describe(ref))
		}
		to.disks = append(to.disks, disk)
	}
	return to, nil
}

// checkOwners is checkOwner for every disk, before the first write. It returns the marker of
// each disk, nil if it has none.
func (s *session) checkOwners(ctx context.Context, to target, released []string) ([]*agentapi.Marker, error) {
	var markers []*agentapi.Marker
	var conflicts ownerConflicts
	for _, disk := range to.disks {
		found, err := s.checkOwner(ctx, disk, released)
		if err := conflicts.collect(err); err != nil {
			return nil, err
		}
		markers = append(markers, found)
	}
	return markers, conflicts.failure()
}

func (s *session) withTarget(ctx context.Context, to target, do func(block.Device) error) error {
	if !to.mirrored() {
		return s.withDisk(ctx, to.disks[0], do)
	}
	return s.withMirror(ctx, to, func(m *raid.Mirror) error { return do(m) })
}

// withMirror opens all members during do. Errors name the member.
func (s *session) withMirror(ctx context.Context, to target, do func(*raid.Mirror) error) (err error) {
	var members []raid.Member
	defer func() {
		for _, m := range members {
			if closing := m.Close(); closing != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", m.Name, closing))
			}
		}
	}()
	for _, disk := range to.disks {
		dev, err := s.openDisk(ctx, disk)
		if err != nil {
			return fmt.Errorf("%s: %w", disk.Name, err)
		}
		members = append(members, raid.Member{Name: disk.Name, Device: dev})
	}
	mirror, err := raid.New(members)
	if err != nil {
		return err
	}
	return do(mirror)
}

func (s *session) withDisk(ctx context.Context, disk agentapi.Disk, do func(block.Device) error) (err error) {
	dev, err := s.openDisk(ctx, disk)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	return do(dev)
}

// openDisk opens a disk that was chosen earlier and checks that its name still belongs to
// it: hours may have passed in which the agent waited for an image. No other disk gets the
// name while the disk is open, so the check holds (I8, I12).
func (s *session) openDisk(ctx context.Context, disk agentapi.Disk) (block.Device, error) {
	dev, err := s.cfg.Disks.Open(ctx, disk)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if err := s.checkUnchanged(ctx, disk); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return dev, nil
}

// checkUnchanged fails if the disk's name now belongs to another disk.
func (s *session) checkUnchanged(ctx context.Context, disk agentapi.Disk) error {
	all, err := s.listDisks(ctx)
	if err != nil {
		return err
	}
	same := func(now agentapi.Disk) bool {
		return now.Name == disk.Name && now.Ref() == disk.Ref() && now.Path == disk.Path
	}
	if !slices.ContainsFunc(all, same) {
		return failuref(agentapi.FailureDiskNotFound, "%s is no longer the chosen disk: %s", disk.Name, describe(disk.Ref()))
	}
	return nil
}

// checkAssembly refuses an image whose system would boot from one member without assembling
// the mirror: the members would differ, and firmware could boot the outdated one. The image
// is at fault for what is on the disk, the server if the disk could not be checked.
func (s *session) checkAssembly(ctx context.Context, to target) error {
	if !to.mirrored() || s.cfg.Assembles == nil {
		return nil
	}
	if err := s.cfg.Assembles(ctx, to.disks[0]); err != nil {
		return failure(seedReason(err), fmt.Errorf("%s: %w", to, err))
	}
	return nil
}

// sealMirror makes one array of disks that hold the same image, including the changes by the
// first-boot data. Until then they are single disks with incomplete markers.
func (s *session) sealMirror(ctx context.Context, to target, written int64) error {
	if !to.mirrored() {
		return nil
	}
	s.progress.set(agentapi.StepMirror, 0, 0)
	err := s.withMirror(ctx, to, func(m *raid.Mirror) error {
		copied, err := m.Match(ctx, written, func(done int64) {
			s.progress.set(agentapi.StepMirror, int(100*done/max(1, written)), done)
		})
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		s.cfg.Log("install: %s: compared %d MiB, copied %d KiB", to, written>>20, copied>>10)
		return m.Seal(raid.Identity{Instance: s.order.InstanceID, Attempt: s.order.Attempt, Created: time.Now()}, written)
	})
	if err != nil {
		return failure(ReasonDiskFailed, fmt.Errorf("%s: %w", to, err))
	}
	return nil
}
