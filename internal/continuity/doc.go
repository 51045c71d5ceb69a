// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package continuity keeps the time since which managers have watched the state of hosts without a gap
// (I21). State from before that time may be outdated: etcd was restored from a backup, the management
// cluster was copied, or another manager acted while this one was away.
//
// The manager renews a Lease, in the same etcd as the hosts. A manager that starts within MaxGap of the
// last renewal continues with the time of its predecessor, so that restarts and leader changes cost
// nothing. A Lease that is older, or that goes back in time while a manager runs, indicates a backup,
// and the time starts again. Package inventory decides what the time means for hosts.
//
//	watch := &continuity.Watch{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}, Namespace: "ingot-system", Name: "ingot-state"}
//	err := mgr.Add(watch)
package continuity
