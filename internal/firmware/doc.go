// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package firmware takes the steps by which a host gets the BIOS settings and the
// firmware that spec.bios and spec.firmware ask for. inventory decides each of them;
// this package reads the BMC, writes to it, and notes in the ledger what came of it.
//
// It must not know how a host lives otherwise: power, orders, claims and conditions are
// package host's, which calls it in each reconcile with a View of the host, and keeps
// its Memory. Nothing waits in here for a server or for a BMC that takes long: images are
// read beside the workers, by Works, and the host is woken at the end.
//
//	preparer := &firmware.Preparer{Live: reader, BMC: r, Works: &r.works, Save: r.patchLocked, ...}
//	view := firmware.View{Host: host, Target: target, Seen: &observation, Memory: &memory}
//	preparer.Observe(ctx, view)
//	decision := lifecycle.Next(host, observation, policy)
//	if why, off := preparer.PutOff(view, decision); off { ... }
//	if firmware.Is(decision.Step) { err = preparer.Execute(ctx, view, decision.Step) }
package firmware
