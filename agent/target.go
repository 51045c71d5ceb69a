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
	"github.com/ingot-metal/ingot/agent/seed"
	"github.com/ingot-metal/ingot/agentapi"
)

// target is what an image is installed on: one disk, or the members of a mirror, the
// order's RootDisk first.
type target struct{ disks []agentapi.Disk }

func (t target) mirrored() bool { return len(t.disks) > 1 }

// String names the disks for people.
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

// pickAll returns the disks that an order names, exactly one for each (I12).
func (s *session) pickAll(ctx context.Context, order agentapi.InstallOrder) (target, error) {
	disks, err := s.cfg.Disks.Names(ctx)
	if err != nil {
		return target{}, failure(ReasonDiskFailed, fmt.Errorf("list the disks: %w", err))
	}
	var to target
	for _, ref := range append([]agentapi.DiskRef{order.RootDisk}, order.MirrorDisks...) {
		disk, err := pickDisk(disks, ref)
		if err != nil {
			return target{}, err
		}
		if slices.ContainsFunc(to.disks, func(other agentapi.Disk) bool { return other.Name == disk.Name }) {
			return target{}, &Failure{Reason: ReasonDiskAmbiguous, Message: fmt.Sprintf("%s is named twice, as two members of one mirror: %s", disk.Name, describe(ref))}
		}
		to.disks = append(to.disks, disk)
	}
	return to, nil
}

// guardAll is guard for every disk, before the first is written. It returns the marker of
// each disk, nil where a disk has none.
func (s *session) guardAll(ctx context.Context, to target, released []string) ([]*agentapi.Marker, error) {
	var markers []*agentapi.Marker
	var refused refusals
	for _, disk := range to.disks {
		found, err := s.guard(ctx, disk, released)
		if err := refused.keep(err); err != nil {
			return nil, err
		}
		markers = append(markers, found)
	}
	return markers, refused.failure()
}

// withTarget opens what an image is installed on for the time of do.
func (s *session) withTarget(ctx context.Context, to target, do func(block.Device) error) error {
	if !to.mirrored() {
		return s.withDisk(ctx, to.disks[0], do)
	}
	return s.withMirror(ctx, to, func(m *raid.Mirror) error { return do(m) })
}

// withMirror opens all members for the time of do. What fails is named.
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

// withDisk opens a disk for the time of do.
func (s *session) withDisk(ctx context.Context, disk agentapi.Disk, do func(block.Device) error) (err error) {
	dev, err := s.openDisk(ctx, disk)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	return do(dev)
}

// openDisk opens a disk that was chosen, and sees that it is that one still: a name may be
// another disk's since, after hours in which an image was waited for. While it is open no
// other gets its name, so what is found under it now is what is open (I8, I12).
func (s *session) openDisk(ctx context.Context, disk agentapi.Disk) (block.Device, error) {
	dev, err := s.cfg.Disks.Open(ctx, disk)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	if err := s.isStill(ctx, disk); err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return dev, nil
}

// isStill refuses a disk whose name another has by now.
func (s *session) isStill(ctx context.Context, disk agentapi.Disk) error {
	all, err := s.listDisks(ctx)
	if err != nil {
		return err
	}
	same := func(now agentapi.Disk) bool {
		return now.Name == disk.Name && now.Ref() == disk.Ref() && now.Path == disk.Path
	}
	if !slices.ContainsFunc(all, same) {
		return &Failure{Reason: ReasonDiskNotFound, Message: fmt.Sprintf("%s is not the disk any more that it was when it was chosen: %s", disk.Name, describe(disk.Ref()))}
	}
	return nil
}

// assembles refuses an image that would boot from one member and leave the other behind:
// sooner or later one of them would be taken for the other. The image is to blame for what
// was found on the disk; that nothing could be looked for is the server's fault.
func (s *session) assembles(ctx context.Context, to target) error {
	if !to.mirrored() || s.cfg.Assembles == nil {
		return nil
	}
	err := s.cfg.Assembles(ctx, to.disks[0])
	if err == nil {
		return nil
	}
	return failure(seedReason(err), fmt.Errorf("%s: %w", to, err))
}

// ownMirror refuses data for a system that would make a mirror of its own.
func ownMirror(to target, format string) error {
	if !to.mirrored() || format != agentapi.FormatIgnition {
		return nil
	}
	return failure(ReasonImageInvalid, fmt.Errorf("%s: %w", to, seed.ErrIgnition))
}

// seal makes disks that hold the same image one array, whatever the seed changed on the
// first. Before that they are none, and neither is said to be complete.
func (s *session) seal(ctx context.Context, to target, written int64) error {
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
		s.cfg.Log("install: %s: %d MiB compared, %d KiB copied", to, written>>20, copied>>10)
		return m.Seal(raid.Identity{Instance: s.order.InstanceID, Attempt: s.order.Attempt, Created: time.Now()}, written)
	})
	if err != nil {
		return failure(ReasonDiskFailed, fmt.Errorf("%s: %w", to, err))
	}
	return nil
}
