// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle answers the lifecycle hooks, and GenerateUpgradePlan: may this
// Cluster be created, upgraded, deleted, with the servers and images that are there?
//
// Each hook is a pure decision (decide.go, plan.go) over what a topology asks for
// (topology.go) and a snapshot of the inventory (snapshot.go), with a thin handler
// (handlers.go). The same question over the same inventory has the same answer. Only
// BeforeClusterCreate writes: hosts are promised through a Planner, which is idempotent.
// Clusters that do not stand on Ingot's servers are let go before any work (I20). The
// status of a Cluster is never read: Cluster API does not send it.
//
// The package must not know BMCs, or how promises are kept.
//
//	handlers := lifecycle.Handlers(lifecycle.Options{Inventory: inventory, Planner: planner, Recorder: recorder})
package lifecycle
