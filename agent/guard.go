// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	switch {
	case errors.Is(err, marker.ErrDamaged):
		return nil, false, failure(ReasonDiskOwnedByOther, fmt.Errorf("%s: %w", disk.Name, err))
	case err != nil:
		return nil, false, failure(ReasonDiskFailed, fmt.Errorf("%s: %w", disk.Name, err))
	case found != nil && found.InstanceID != s.order.InstanceID && !slices.Contains(released, found.InstanceID):
		return nil, false, &Failure{
			Reason: ReasonDiskOwnedByOther,
			Message: fmt.Sprintf("%s (serial %q) belongs to instance %s, which was not released",
				disk.Name, disk.Serial, found.InstanceID),
		}
	}
	return found, cutOff, nil
}

// makeReady waits for an erasure that the disk is at, and tells for how long.
func (s *session) makeReady(ctx context.Context, disk heldDisk) (cutOff bool, err error) {
	return erase.Ready(ctx, s.eraseTarget(disk), s.eraseOptions(func(p erase.Progress) {
		now := s.progress.current()
		now.Seconds = int64(p.Working.Seconds())
		s.progress.put(now)
	}))
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
	return erase.Options{OnProgress: tell, Log: s.cfg.Log, Sleep: s.cfg.Sleep}
}
