// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"
	"testing"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agentapi"
)

// On an unknown server the agent only reports, whatever the manager orders, and restarts.
func TestUnknownServerIsNotChanged(t *testing.T) {
	const token = "v1/-/net/Discover/52:54:00:00:00:01/-/0/1800000000/mac"
	install, _ := installOrder(t)
	for name, tc := range map[string]struct {
		order   agentapi.Order
		action  agentapi.Action
		refused string
		outcome agentapi.Outcome
	}{
		"nothing to do":     {order: agentapi.Order{Kind: agentapi.Discover, ID: "o1"}, action: agentapi.Restart, outcome: agentapi.Succeeded},
		"told to power off": {order: agentapi.Order{Kind: agentapi.Discover, ID: "o1"}, action: agentapi.PowerOff, outcome: agentapi.Succeeded},
		"told to install":   {order: install.Order, action: agentapi.BootDisk, outcome: agentapi.Failed},
		"told to wipe": {order: agentapi.Order{Kind: agentapi.Clean, ID: "o1", Clean: &agentapi.CleanOrder{Mode: "Metadata", Disks: []agentapi.DiskRef{{Serial: "A"}}}},
			action: agentapi.PowerOff, outcome: agentapi.Failed},
		"refused": {order: agentapi.Order{Kind: agentapi.Discover, ID: "o1"}, refused: agentapi.PathSession},
	} {
		t.Run(name, func(t *testing.T) {
			m := agenttest.NewManager()
			m.Token, m.Order, m.Action = token, tc.order, tc.action
			m.Faults = func(path string, _ int) *agenttest.Fault {
				if path == tc.refused {
					return refusal(agentapi.ReasonOrderGone)
				}
				return nil
			}
			s := newServer(t, twoDisks...)
			action, err := s.run(m)
			if action != agentapi.Restart || errors.Is(err, agent.ErrRefused) != (tc.refused != "") {
				t.Errorf("%s, %v", action, err)
			}
			if tc.refused == "" {
				if reports := m.Reports(); len(reports) != 1 || reports[0].Outcome != tc.outcome {
					t.Errorf("reports %+v", reports)
				}
			}
			if !s.untouched(0) || !s.untouched(1) || len(s.seeded) != 0 {
				t.Error("a disk was written")
			}
		})
	}
	// A known server refuses an order for unknown servers.
	m := agenttest.NewManager()
	m.Order = agentapi.Order{Kind: agentapi.Discover, ID: "o1"}
	if action, err := newServer(t, twoDisks...).run(m); action != agentapi.PowerOff || err != nil || m.Reports()[0].Outcome != agentapi.Failed {
		t.Errorf("%s, %v, %+v", action, err, m.Reports())
	}
}
