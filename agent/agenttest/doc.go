// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agenttest is a manager and an image server for tests of the agent: they
// speak the agent API and HTTP as agentapi documents them, record what they were
// told, and have knobs for faults. It never imports the agent.
//
//	m := agenttest.NewManager()
//	m.Order = agentapi.Order{Kind: agentapi.Inspect, ID: "o1"}
//	addr := m.Start(t)
//	// … run the agent against addr with m.Pin() and m.Token
package agenttest
