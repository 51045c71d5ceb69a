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

// invalidate makes an unfinished installation unbootable on every disk, as a Metadata
// cleaning does, but keeps the marker. Otherwise a server that is switched on by hand would
// start an unreported system, possibly with bootstrap data. The incomplete marker comes
// first, since the failed write may have been that of the complete one. After a final
// refusal (cause) nothing is written. Errors are only logged: the report carries cause.
func (s *session) invalidate(ctx context.Context, to target, incomplete agentapi.Marker, cause error) {
	if errors.Is(cause, ErrRefused) {
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
			s.cfg.Log("install: %s: the install failed, and the disk may still boot: invalidate it: %v", disk.Name, err)
			continue
		}
		s.cfg.Log("install: %s: the install failed; made the disk unbootable", disk.Name)
	}
}
