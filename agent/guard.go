// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

// checkOwner opens a disk, returns its marker (nil: none), and refuses a disk of another
// instance that was not released (I8).
func (s *session) checkOwner(ctx context.Context, disk agentapi.Disk, released []string) (*agentapi.Marker, error) {
	var found *agentapi.Marker
	err := s.withDisk(ctx, disk, func(dev block.Device) error {
		var err error
		found, _, err = s.checkOpenOwner(ctx, openDisk{disk, dev}, released)
		return err
	})
	if _, known := errors.AsType[*Failure](err); err != nil && !known {
		err = failure(ReasonDiskFailed, fmt.Errorf("%s: %w", disk.Name, err))
	}
	return found, err
}

// checkNoOldSystem refuses an install while a disk that the order does not name holds the
// complete system of a released instance. If both came from one image, their labels and
// UUIDs are equal, and firmware or boot loader could start the old system with its secrets.
// Disks that no order names are not written (I12), so only a cleaning can remove it. The
// markers are those from the start of the session: reading them again may wait for a hanging
// disk. A disk that cannot be read has no marker, and does not boot either.
func (s *session) checkNoOldSystem(to target, released []string) error {
	for _, disk := range s.found {
		chosen := slices.ContainsFunc(to.disks, func(t agentapi.Disk) bool { return t.Ref() == disk.Ref() && t.Path == disk.Path })
		if m := disk.Marker; !chosen && m != nil && m.Complete && m.InstanceID != s.order.InstanceID && slices.Contains(released, m.InstanceID) {
			return failuref(agentapi.FailureOldSystem, "%s (serial %q) still holds the bootable system of released instance %s: clean this disk before the install", disk.Name, disk.Serial, m.InstanceID)
		}
	}
	return nil
}

type openDisk struct {
	agentapi.Disk
	dev block.Device
}

// close closes the disk unless it is closed.
func (d *openDisk) close() error {
	if d.dev == nil {
		return nil
	}
	err := d.dev.Close()
	d.dev = nil
	return err
}

// checkOpenOwner is checkOwner for an open disk. A read error may come from a running
// erasure, for which it waits, or from a disk that an interrupted erasure left locked;
// cutOff reports the latter.
func (s *session) checkOpenOwner(ctx context.Context, disk openDisk, released []string) (found *agentapi.Marker, cutOff bool, err error) {
	found, err = marker.Read(disk.dev)
	if err != nil && !errors.Is(err, marker.ErrDamaged) {
		var notReady error
		if cutOff, notReady = erase.Ready(ctx, s.eraseTarget(disk), s.eraseOptions(s.reportWorking)); notReady != nil {
			return nil, false, failure(ReasonDiskFailed, fmt.Errorf("%s: %w", disk.Name, errors.Join(err, notReady)))
		}
		found, err = marker.Read(disk.dev)
	}
	damaged, isDamaged := errors.AsType[*marker.DamagedError](err)
	switch {
	case isDamaged && slices.Contains(released, damaged.Name):
		return nil, cutOff, nil
	case isDamaged:
		return nil, false, ownerConflicts{{disk.Disk, damaged.Name}}.failure()
	case err != nil:
		return nil, false, failure(ReasonDiskFailed, fmt.Errorf("%s: %w", disk.Name, err))
	case found != nil && found.InstanceID != s.order.InstanceID && !slices.Contains(released, found.InstanceID):
		return nil, false, ownerConflicts{{disk.Disk, found.InstanceID}}.failure()
	}
	return found, cutOff, nil
}

// ownerConflicts are disks with markers of instances that were not released. The conflicts
// of all disks of an order are reported together, so that the operator can approve them at
// once.
type ownerConflicts []ownerConflict

// ownerConflict is one disk and its owner: an instance, or the name of a damaged marker.
type ownerConflict struct {
	disk  agentapi.Disk
	owner string
}

// collect appends the conflicts in err and returns nil, or returns any other error.
func (r *ownerConflicts) collect(err error) error {
	if more, ok := errors.AsType[ownerConflicts](err); ok {
		*r = append(*r, more...)
		return nil
	}
	return err
}

// Error implements error. The names to approve come first, since the text may be cut.
func (r ownerConflicts) Error() string {
	var owners, disks []string
	for _, c := range r {
		problem := "belongs to instance " + c.owner
		if strings.HasPrefix(c.owner, agentapi.DamagedMarker) {
			problem = "has a damaged marker of an unknown owner, " + c.owner
		}
		disks = append(disks, fmt.Sprintf("%s (serial %q) %s", c.disk.Name, c.disk.Serial, problem))
		if !slices.Contains(owners, c.owner) {
			owners = append(owners, c.owner)
		}
	}
	return fmt.Sprintf("disks have unreleased owners %s: approve them to overwrite the data; %s", strings.Join(owners, ","), strings.Join(disks, "; "))
}

// failure returns the conflicts as a Failure; nil if there are none.
func (r ownerConflicts) failure() error {
	if len(r) == 0 {
		return nil
	}
	return failure(ReasonDiskOwnedByOther, r)
}

// reportWorking reports in the current step for how long a disk has been working on a
// command of its own.
func (s *session) reportWorking(p erase.Progress) {
	now := s.progress.current()
	now.Seconds = int64(p.Working.Seconds())
	s.progress.put(now)
}

func (s *session) eraseTarget(disk openDisk) erase.Target {
	commands, ok := disk.dev.(erase.Commands)
	if !ok {
		commands = erase.None{}
	}
	target := erase.Target{Device: disk.dev, Commands: commands, Disk: disk.Disk}
	if s.order.Clean != nil {
		target.JournalKey = s.order.Clean.JournalKey
	}
	return target
}

func (s *session) eraseOptions(onProgress func(erase.Progress)) erase.Options {
	return erase.Options{OnProgress: onProgress, Log: s.cfg.Log, Sleep: s.cfg.Sleep, Running: &s.running}
}
