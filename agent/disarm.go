// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

// bootSize is where firmware looks for what it boots, the tables of partitions among it.
const bootSize = 1 << 20

// disarm takes the beginning of an image away that could not be finished, from every disk:
// a server that is switched on by hand would otherwise start a system that nobody gave up
// to it, perhaps with bootstrap data. Each disk is said to be incomplete first, since its
// marker may be the write that failed. Where the order does not hold any more nothing is
// written; what fails is for the log, the failure itself goes into the report.
func (s *session) disarm(ctx context.Context, to target, incomplete agentapi.Marker, why error) {
	if ctx.Err() != nil || errors.Is(why, ErrRefused) {
		return
	}
	for _, disk := range to.disks {
		err := s.withDisk(ctx, disk, func(dev block.Device) error {
			if err := marker.Write(dev, incomplete); err != nil {
				return err
			}
			if err := block.Zero(ctx, dev, 0, agentapi.MarkerOffset); err != nil {
				return err
			}
			after := int64(agentapi.MarkerOffset + agentapi.MarkerSize)
			if err := block.Zero(ctx, dev, after, bootSize-after); err != nil {
				return err
			}
			return dev.Sync()
		})
		if err != nil {
			s.cfg.Log("install: %v", fmt.Errorf("%s could not be made unbootable after the install failed: %w", disk.Name, err))
			continue
		}
		s.cfg.Log("install: %s does not boot: the install could not be finished", disk.Name)
	}
}
