// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"slices"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// killPoint is a critical moment in a host's lifecycle.
type killPoint struct {
	name    string
	matches func(*infrav1.IngotHost) bool
}

// killPoints are in the order of the lifecycle.
var killPoints = []killPoint{
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

// killManager kills and restarts the manager once at each kill point.
func (s *show) killManager(ctx context.Context, v view) error {
	if !s.KillManager {
		return nil
	}
	for _, p := range killPoints {
		for i := range v.hosts {
			if slices.Contains(s.kills, p.name) || !p.matches(&v.hosts[i]) {
				continue
			}
			s.manager.Kill()
			s.kills = append(s.kills, p.name)
			s.say("Killed the manager %s (%s)", p.name, v.hosts[i].Name)
			if err := s.runManager(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
