// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/wipe"
	"github.com/ingot-metal/ingot/agentapi"
)

// modeMetadata is the mode of cleaning that this agent knows.
const modeMetadata = "Metadata"

// wipe cleans the disks that the order names. All of them are found and checked
// before the first write; a disk that is not named is not opened (I12).
func (s *session) wipe(ctx context.Context, order agentapi.WipeOrder) (agentapi.Report, error) {
	var report agentapi.Report
	if order.Mode != modeMetadata {
		return report, &Failure{
			Reason:  ReasonOrderNotUnderstood,
			Message: fmt.Sprintf("agent %s knows no cleaning mode %.40q", s.cfg.Version, order.Mode),
		}
	}
	disks, err := s.wipeTargets(ctx, order)
	if err != nil {
		return report, err
	}
	for i, disk := range disks {
		s.progress.set(agentapi.StepWipe, i*100/len(disks), 0)
		err := s.withDisk(ctx, disk, func(dev block.Device) error { return wipe.Metadata(ctx, dev) })
		if err != nil {
			return report, failure(ReasonWipeFailed, fmt.Errorf("%s (serial %q): %w", disk.Name, disk.Serial, err))
		}
		s.cfg.Log("wipe: %s (serial %q) is clean", disk.Name, disk.Serial)
		report.WipedDisks = append(report.WipedDisks, order.Disks[i])
	}
	s.progress.set(agentapi.StepWipe, 100, 0)
	return report, nil
}

func (s *session) wipeTargets(ctx context.Context, order agentapi.WipeOrder) ([]agentapi.Disk, error) {
	all, err := s.cfg.Disks.List(ctx)
	if err != nil {
		return nil, failure(ReasonDiskFailed, fmt.Errorf("list the disks: %w", err))
	}
	var disks []agentapi.Disk
	for _, ref := range order.Disks {
		disk, err := pickDisk(all, ref)
		if err != nil {
			return nil, err
		}
		if _, err := s.guard(ctx, disk, order.ReleasedInstances); err != nil {
			return nil, err
		}
		disks = append(disks, disk)
	}
	return disks, nil
}
