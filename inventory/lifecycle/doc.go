// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides what a host needs next: inspection, installation, cleaning, power,
// firmware. Next takes the IngotHost and one observation of its server and returns one
// decision; Conditions explains that decision. The package is pure: it knows no Kubernetes
// client, no network and no clock, and changes none of its arguments.
//
//	decision := lifecycle.Next(host, observation, lifecycle.DefaultPolicy())
//	switch step := decision.Step.(type) {
//	case lifecycle.PowerOff:
//		// save lastResetTime (and softPowerOffTime), then switch
//	...
//	}
//	conditions := lifecycle.Conditions(host, observation, decision)
//
// I1 and the like, here and in other packages, are invariants of docs/invariants.md.
//
// # The life of a host
//
// Next is a table of rules (rules_host.go). The first rule that applies decides:
//
//   - An object being deleted is let go, never with our agent left running, and
//     with a claim only by force; one that is being released is fenced and cleaned
//     first. A person's force-release ends a release at once and leaves the host
//     quarantined as not fenced (I7). A command that nothing waits for is taken away.
//   - Duplicates, hosts without a BMC, and claims whose machine is gone are left
//     alone (I6, I8); without a word from the BMC about the power nothing is done.
//   - An order is ended (off, then concluded, tried again, or quarantined), waited
//     for, or booted. One that no longer fits the ledger is dropped with the host off.
//   - A claim: Provisioning wants the host off; Provisioned hears only people (I2);
//     Releasing is fenced, soft then hard (I7), and cleaned.
//   - A host that is off, or free: maintenance and quarantine keep hands off, and so does a server
//     that is on unasked (I8).
//   - Over all of them: while a BMC may be writing firmware, nobody switches the host.
//   - What is left is off and has work to do, or none: what a boot needs, the order,
//     the boot; or Available.
//
// # What Next asks of its caller
//
//   - Save lastResetTime and softPowerOffTime before the switch: after a crash a
//     switch that perhaps happened is waited for, not repeated at once.
//   - Forget softPowerOffTime when the host was seen off, and at each switch-on.
//   - When Decision.RecordContact is set, save Now as the agent's last contact.
//   - Answer LookInside by a reading of settings and firmware and ask again; forget the
//     reading at each switch and each write of settings.
//   - Write SaveLedger with the resourceVersion that was decided on.
//
// TestWalk drives all this through a world with faults; TestMutants takes away each
// rule and each condition in turn and expects the walk to find the harm.
package lifecycle
