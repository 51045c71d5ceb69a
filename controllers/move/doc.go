// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package move pauses the hosts of a namespace while clusterctl moves them to another management
// cluster, and ends the pause on the target (I10).
//
// clusterctl move first notes the objects with block-move, then pauses every Cluster, waits until
// block-move is gone, and copies. Therefore:
//
//   - Hosts have block-move while their namespace has an unpaused Cluster.
//   - When all Clusters are paused, every host is paused by an annotation that moves with it.
//     Package host removes block-move once no action is in progress.
//   - The IPAddressClaims of a host are paused before the host and unpaused before it:
//     otherwise providers on the target would answer them before their IPAddresses arrive.
//   - On the target, the pause ends when a Cluster is unpaused, which clusterctl does last, and
//     the host's claim names a machine that has arrived.
//   - A host with pending work stays paused for Reconciler.Rest longer, so that the move can still
//     be reversed.
//
// Decide is a pure function of a host and of the state of its namespace's Clusters. The package
// does not contact BMCs and does not change claim, record or order.
//
//	err := (&move.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}).SetupWithManager(mgr, opts)
package move
