// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// torment is a moment at which a manager should not die, and may.
type torment struct {
	name string
	now  func(*infrav1.IngotHost) bool
}

// torments, in the order in which a host meets them.
var torments = []torment{
	{"while the image is being written", func(h *infrav1.IngotHost) bool {
		return h.Spec.Order != nil && h.Spec.Order.Kind == infrav1.OrderInstall && stepOf(h) == string(agentapi.StepWrite)
	}},
	{"after the commit point", func(h *infrav1.IngotHost) bool {
		return h.Spec.Claim != nil && h.Spec.Claim.State == infrav1.ClaimProvisioned && h.Status.Booted == nil
	}},
	{"while the host is released", func(h *infrav1.IngotHost) bool {
		return h.Spec.Claim != nil && h.Spec.Claim.State == infrav1.ClaimReleasing && h.Spec.Order != nil
	}},
}

func stepOf(h *infrav1.IngotHost) string {
	if h.Status.Operation == nil {
		return ""
	}
	return h.Status.Operation.Step
}

// torment kills the manager at each of the moments, once, and starts it again.
func (s *show) torment(ctx context.Context, v view) error {
	if !s.KillManager {
		return nil
	}
	for _, t := range torments {
		for i := range v.hosts {
			if slices.Contains(s.kills, t.name) || !t.now(&v.hosts[i]) {
				continue
			}
			s.manager.Kill()
			s.kills = append(s.kills, t.name)
			s.say("manager killed %s (%s)", t.name, v.hosts[i].Name)
			if err := s.runManager(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
