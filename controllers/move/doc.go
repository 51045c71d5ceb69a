// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package move has the hosts of a namespace stand still while clusterctl moves them
// to another management cluster, and go on where they arrive (I10).
//
// clusterctl move looks first which objects carry block-move, then pauses every
// Cluster, then waits until block-move is gone, and only then copies. So:
//
//   - hosts carry block-move while their namespace has an unpaused Cluster;
//   - when all Clusters are paused, every host is paused as well, by an annotation
//     that travels with it; package host takes block-move away once it stands still;
//   - the IPAddressClaims of a host stand still before it, and go on before it, since
//     providers would answer them on the target before their IPAddresses arrive;
//   - where hosts arrive, the pause is lifted when a Cluster is unpaused there, which
//     clusterctl does last, and the host's claim names a machine that has arrived;
//   - where work is due at a host that has arrived, only after a rest: until then
//     nothing has been done that could not be moved back.
//
// Decide is the whole decision, a pure function of a host and of what its namespace's
// Clusters say. The package knows no BMC and never touches claim, record or order.
//
//	err := (&move.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}).SetupWithManager(mgr, opts)
package move
