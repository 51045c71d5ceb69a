// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package enrollment creates IngotHosts for unknown machines: servers without an IngotHost that
// report themselves from a network of mode Discover. Such a host waits for approval; inventory
// decides what happens to it then.
//
// A report is not trusted: it never changes an existing object and creates at most one host, and at
// most maxHosts hosts wait on a network. Replicas enroll one machine after the other, by optimistic
// locking of the network's status.
//
// The package does not depend on tokens, packets or BMCs.
//
//	registrar := &enrollment.Registrar{Client: c, Live: mgr.GetAPIReader(), Recorder: r, Clock: clock.RealClock{}}
//	key, err := registrar.Enroll(ctx, enrollment.Report{Network: "rack-a", MAC: mac, Facts: facts})
//	if wait, ok := enrollment.RetryAfter(err); ok { … }
package enrollment
