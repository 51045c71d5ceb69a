// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle implements the lifecycle hooks and GenerateUpgradePlan: they decide whether a
// Cluster can be created, upgraded or deleted with the available hosts and images.
//
// Each hook is a pure decision (decide.go, plan.go) about the requirements of a topology
// (topology.go) and a snapshot of the inventory (snapshot.go), with a thin handler (handlers.go).
// The same input always gives the same answer. Only BeforeClusterCreate and the upgrade hooks
// write: they reserve hosts through an idempotent Planner. Clusters of other providers pass
// immediately (I20). The hooks never read the status of a Cluster, because Cluster API does not
// send it.
//
// The package does not know BMCs or how reservations are stored.
//
//	handlers := lifecycle.Handlers(lifecycle.Options{Inventory: inventory, Planner: planner, Recorder: recorder})
package lifecycle
