// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lifecycle decides what a host needs next: inspection, installation, cleaning, power
// or firmware. Next takes the IngotHost and one observation of its server and returns one
// decision. Conditions explains that decision. The package is pure: it uses no Kubernetes
// client, no network and no clock, and does not change its arguments.
//
//	decision := lifecycle.Next(host, observation, lifecycle.DefaultPolicy())
//	switch step := decision.Step.(type) {
//	case lifecycle.PowerOff:
//		// save lastResetTime (and softPowerOffTime), then power off
//	...
//	}
//	conditions := lifecycle.Conditions(host, observation, decision)
//
// I1 and the like are invariants of docs/invariants.md.
//
// # Terms
//
//   - The ledger is the persistent state in the spec of an IngotHost: claim, record, order
//     and commands.
//   - An order is for the agent to inspect, install or clean the host (kind Wipe).
//   - A host is fenced when the BMC has confirmed that it is off (I7).
//
// # Rules
//
// Next is a table of rules (rules_host.go). The first rule that applies decides:
//
//   - An object that is being deleted is released, but not while the agent runs. A claimed
//     one needs a force-release. One that is being released is fenced and cleaned first. A
//     force-release ends a release at once and quarantines the host as not fenced (I7).
//     Commands that have no use are removed.
//   - Duplicates, hosts without a BMC, and claims whose machine is missing are left alone (I6,
//     I8). So are hosts whose power state is unknown.
//   - An order ends (power off, then success, retry or quarantine), waits, or boots the agent.
//     An order that no longer fits the ledger is dropped once the host is off.
//   - Claims: Provisioning needs the host off. Provisioned only follows operators (I2).
//     Releasing shuts the host down, cuts the power if needed (I7), and cleans it.
//   - A host that is off or free: maintenance and quarantine prevent any step, and so does a
//     server that came on without Ingot (I8).
//   - While a BMC may be writing firmware, no rule changes the power.
//   - A host that is left is off. It has work, for which Ingot meets the preconditions, writes
//     the order and boots the agent, or it is Available.
//
// # What the caller does
//
//   - It saves lastResetTime and softPowerOffTime before a power action. After a crash, Ingot
//     waits for an action that may have happened, and does not repeat it at once.
//   - It clears softPowerOffTime when the host was seen off, and at each power-on.
//   - If Decision.RecordContact is set, it saves Now as the agent's last contact.
//   - It answers ReadFirmware with a reading of settings and firmware and calls Next again. It
//     drops the reading at each power action and each write of settings.
//   - It writes SaveLedger with the resourceVersion of the host that was decided on.
//
// TestWalk drives the rules through a simulated world with faults. TestMutants removes each
// rule and each condition in turn, and requires that a walk finds the harm.
package lifecycle
