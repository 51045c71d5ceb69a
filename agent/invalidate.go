// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agent/wipe"
	"github.com/ingot-metal/ingot/agentapi"
)

// disarm takes an image that could not be finished off every disk, as a Metadata cleaning
// does but for the marker: a server that is switched on by hand would otherwise start a
// system that nobody gave up to it, perhaps with bootstrap data. Each disk is said to be
// incomplete first, since its marker may be the write that failed. Where the order does not
// hold any more nothing is written; what fails is for the log, the failure itself goes into
// the report.
func (s *session) disarm(ctx context.Context, to target, incomplete agentapi.Marker, why error) {
	if errors.Is(why, ErrRefused) {
		return
	}
	for _, disk := range to.disks {
		err := s.withDisk(ctx, disk, func(dev block.Device) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return errors.Join(marker.Write(dev, incomplete), wipe.Inside(ctx, dev), wipe.Outside(ctx, dev))
		})
		if err != nil {
			s.cfg.Log("install: %s: it could not be finished, and may boot: %v", disk.Name, err)
			continue
		}
		s.cfg.Log("install: %s: it could not be finished, and does not boot", disk.Name)
	}
}
