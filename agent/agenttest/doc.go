// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agenttest provides a manager and an image server for tests of the agent. They
// implement the agent API and HTTP as agentapi documents them, record all calls, and can
// inject faults. The package does not import the agent.
//
//	m := agenttest.NewManager()
//	m.Order = agentapi.Order{Kind: agentapi.Inspect, ID: "o1"}
//	addr := m.Start(t)
//	// … run the agent against addr with m.Pin() and m.Token
package agenttest
