// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulated holds the line of simulated servers: lab BMCs and servers on
// the user-space network, driven by the real Redfish driver, boot server and
// agent, with a manager that is a fake of the agent API. What it shows is that
// these parts fit, and what a power cut anywhere leaves on a disk; the manager's
// own decisions are tested elsewhere.
//
// A Rack is reusable:
//
//	r := simulated.NewRack(t, simulated.Options{Servers: 3})
//	r.Order(0, agentapi.Install, "instance", 1)
//	r.NetworkBoot(t, 0)
package simulated
