// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package firmware brings a host's BIOS settings and firmware to spec.bios and spec.firmware.
// inventory decides each step; this package reads the BMC, writes to it, and records the outcome in
// the host.
//
// Package host handles the rest of a host's lifecycle (power, orders, claims, conditions). In each
// reconcile it calls this package with a View of the host, whose Memory it keeps. No call waits for
// a slow server or BMC: Works reads and pushes images in the background, and wakes the host at the
// end.
//
//	preparer := &firmware.Preparer{Live: reader, BMC: r, Works: &r.works, Save: r.patchLocked, ...}
//	view := firmware.View{Host: host, Target: target, Seen: &observation, Memory: &memory}
//	preparer.Observe(ctx, view)
//	decision := lifecycle.Next(host, observation, policy)
//	if why, off := preparer.Defer(view, decision); off { ... }
//	if firmware.IsStep(decision.Step) { err = preparer.Execute(ctx, view, decision.Step) }
package firmware
