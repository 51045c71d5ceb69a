// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package continuity keeps the time since which managers have watched the state of hosts
// without a gap (I21). What an IngotHost says from before that time may be out of date: etcd
// may have been restored from a backup, the management cluster copied, or the manager may
// have been away while another one acted.
//
// The manager renews a Lease, in the same etcd as the hosts. A manager that starts within
// MaxGap of the last renewal goes on with the time of its predecessor, so that a restart or
// a change of leader costs nothing. A Lease that is older, or that goes back in time under a
// manager that runs, shows a backup, and the time begins again.
//
// The package must not know hosts; package inventory decides what the time means.
//
//	watch := &continuity.Watch{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Namespace: "ingot-system", Name: "ingot-state"}
//	err := mgr.Add(watch)
package continuity
