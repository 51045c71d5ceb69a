// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package enrollment makes IngotHosts for unknown clients: servers without an IngotHost that
// report themselves from a network of mode Discover. Such a host waits for a person;
// what is done to it then, and that nothing is before, is the inventory's to say.
//
// A report is a stranger's word: it never changes an object that is there, makes one
// host at most, and no more hosts wait on a network than its maxHosts. Replicas enrol
// one after the other, by optimistic lock on the network's status.
//
// It must not know tokens, packets or BMCs.
//
//	registrar := &enrollment.Registrar{Client: c, Live: mgr.GetAPIReader(), Recorder: r, Clock: clock.RealClock{}}
//	key, err := registrar.Enrol(ctx, enrollment.Report{Network: "rack-a", MAC: mac, Facts: facts})
//	if wait, ok := enrollment.Later(err); ok { … }
package enrollment
