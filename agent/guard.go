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

// guard reads a disk's marker and refuses a disk of another instance that was not
// released (I8).
func (s *session) guard(ctx context.Context, disk agentapi.Disk, released []string) (*agentapi.Marker, error) {
	var found *agentapi.Marker
	err := s.withDisk(ctx, disk, func(dev block.Device) error {
		var err error
		found, _, err = s.ownerOf(ctx, heldDisk{disk, dev}, released)
		return err
	})
	if _, known := errors.AsType[*Failure](err); err != nil && !known {
		err = failure(ReasonDiskFailed, fmt.Errorf("%s: %w", disk.Name, err))
	}
	return found, err
}

// noOldSystem refuses to install next to the complete system of a released instance on another
// disk: both would have the same labels and UUIDs, where both came from one image, and the
// firmware or the boot loader could start the old one, with its secrets. Disks that no order
// names are not written (I12), so that only a cleaning can take it away. Markers are those that
// the session began with: to read them may wait for a disk that hangs. A disk that could not be
// read has none, and does not boot either.
func (s *session) noOldSystem(to target, released []string) error {
	for _, disk := range s.found {
		chosen := slices.ContainsFunc(to.disks, func(t agentapi.Disk) bool { return t.Ref() == disk.Ref() && t.Path == disk.Path })
		if m := disk.Marker; !chosen && m != nil && m.Complete && m.InstanceID != s.order.InstanceID && slices.Contains(released, m.InstanceID) {
			return &Failure{Reason: ReasonOldSystem, Message: fmt.Sprintf(
				"%s (serial %q) holds the system of released instance %s, which was not cleaned and would boot next to this one", disk.Name, disk.Serial, m.InstanceID)}
		}
	}
	return nil
}

// heldDisk is a disk that is open.
type heldDisk struct {
	agentapi.Disk
	dev block.Device
}

// ownerOf is guard for a disk that is open already. One that cannot be read may be in
// the middle of an erasure, which whatever is to be done now has to wait for, or may have
// been left locked by one: cutOff says that it was.
func (s *session) ownerOf(ctx context.Context, disk heldDisk, released []string) (found *agentapi.Marker, cutOff bool, err error) {
	found, err = marker.Read(disk.dev)
	if err != nil && !errors.Is(err, marker.ErrDamaged) {
		var notReady error
		if cutOff, notReady = s.makeReady(ctx, disk); notReady != nil {
			return nil, false, failure(ReasonDiskFailed, fmt.Errorf("%s: %w", disk.Name, errors.Join(err, notReady)))
		}
		found, err = marker.Read(disk.dev)
	}
	damaged, isDamaged := errors.AsType[*marker.DamagedError](err)
	switch {
	case isDamaged && slices.Contains(released, damaged.Name):
		return nil, cutOff, nil
	case isDamaged:
		return nil, false, refusals{{disk.Disk, damaged.Name}}.failure()
	case err != nil:
		return nil, false, failure(ReasonDiskFailed, fmt.Errorf("%s: %w", disk.Name, err))
	case found != nil && found.InstanceID != s.order.InstanceID && !slices.Contains(released, found.InstanceID):
		return nil, false, refusals{{disk.Disk, found.InstanceID}}.failure()
	}
	return found, cutOff, nil
}

// refusals are disks with the markers of others that were not released. Those of all disks
// of an order are told together: who approves one by one would be refused for the next each
// time.
type refusals []refusal

// refusal is one disk, and the instance that it belongs to or the name of a damaged marker.
type refusal struct {
	disk  agentapi.Disk
	owner string
}

// keep takes a refusal out of an error, and returns any other.
func (r *refusals) keep(err error) error {
	if more, ok := errors.AsType[refusals](err); ok {
		*r = append(*r, more...)
		return nil
	}
	return err
}

// Error implements error. The names come first, as they are approved: the text may be cut.
func (r refusals) Error() string {
	var owners, disks []string
	for _, one := range r {
		what := "belongs to instance " + one.owner
		if strings.HasPrefix(one.owner, agentapi.DamagedMarker) {
			what = "has a damaged marker, " + one.owner + ", and nobody knows whose"
		}
		disks = append(disks, fmt.Sprintf("%s (serial %q) %s", one.disk.Name, one.disk.Serial, what))
		if !slices.Contains(owners, one.owner) {
			owners = append(owners, one.owner)
		}
	}
	return fmt.Sprintf("not released, and to be approved if the data may go: %s; %s", strings.Join(owners, ","), strings.Join(disks, "; "))
}

// failure is nil where there are none.
func (r refusals) failure() error {
	if len(r) == 0 {
		return nil
	}
	return failure(ReasonDiskOwnedByOther, r)
}

// makeReady waits for an erasure that the disk is at, and tells for how long.
func (s *session) makeReady(ctx context.Context, disk heldDisk) (cutOff bool, err error) {
	return erase.Ready(ctx, s.eraseTarget(disk), s.eraseOptions(s.tellWorking))
}

// tellWorking tells for how long a disk has been at work by itself, in the step at hand.
func (s *session) tellWorking(p erase.Progress) {
	now := s.progress.current()
	now.Seconds = int64(p.Working.Seconds())
	s.progress.put(now)
}

func (s *session) eraseTarget(disk heldDisk) erase.Target {
	commands, ok := disk.dev.(erase.Commands)
	if !ok {
		commands = erase.None{}
	}
	target := erase.Target{Device: disk.dev, Commands: commands, Disk: disk.Disk}
	if s.order.Wipe != nil {
		target.JournalKey = s.order.Wipe.JournalKey
	}
	return target
}

func (s *session) eraseOptions(tell func(erase.Progress)) erase.Options {
	return erase.Options{OnProgress: tell, Log: s.cfg.Log, Sleep: s.cfg.Sleep, Running: &s.running}
}
