// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file decides about commands, which operators give by annotating a host. Ingot carries a
// command out, keeps it for at most an hour until it applies, or removes it. A force-release
// that applied later would release the next machine of the host without a confirmed power-off.

// commandDropped is a command that Ingot removes, and why.
type commandDropped struct{ name, why string }

// idleCommands returns the commands that have no use at present. It omits those whose
// preconditions are unknown.
func (in *input) idleCommands() []commandDropped {
	var idle []commandDropped
	for _, name := range inventory.CommandNames() {
		c, pending := inventory.PendingCommand(in.host, name)
		if why := in.refusedByTime(c); pending && why != "" && name != infrav1.RetryBMCAnnotation {
			idle = append(idle, commandDropped{name: name, why: why})
		}
	}
	for _, c := range []struct {
		name  string
		waits bool
		why   func() string
	}{
		{infrav1.ForceReleaseAnnotation, in.mayBeForced(), in.whyNotForced},
		{infrav1.ReleaseAnnotation, in.held() && !in.machineExists(), in.whyNotDangling},
		{infrav1.ClearQuarantineAnnotation, in.clearable(), in.whyNotCleared},
	} {
		if in.commanded(c.name) && !c.waits {
			idle = append(idle, commandDropped{name: c.name, why: c.why()})
		}
	}
	return idle
}

func (in *input) commandIdle() bool   { return len(in.idleCommands()) > 0 }
func (in *input) machineExists() bool { return in.obs.Machine == MachineExists }

// mayBeForced reports whether the machine waits for its power-off, or soon will: its Machine is
// being deleted. That cannot be undone, but the drain before it may take hours.
func (in *input) mayBeForced() bool {
	if in.held() {
		return in.obs.MachineDeleting || !in.machineExists()
	}
	return in.releasing() && in.notFenced()
}

// clearable reports whether an operator may end the quarantine.
func (in *input) clearable() bool { return in.quarantined() && !in.quarantinedNotFenced() }

func (in *input) whyNotForced() string {
	switch {
	case in.held():
		return "delete the Machine first"
	case in.claimed():
		return "the power-off is already confirmed. To skip cleaning, delete the host first"
	default:
		return "no machine uses the host. To skip cleaning, delete the host first"
	}
}

func (in *input) whyNotDangling() string {
	return "no IngotMachine is missing"
}

func (in *input) whyNotCleared() string {
	if in.quarantinedNotFenced() {
		return "this quarantine ends when the BMC confirms the power-off"
	}
	return "the host is not quarantined"
}

// dropCommands removes the idle commands and remembers them. An annotation that is set again
// with the same value, as by GitOps, then has no effect and stays.
func dropCommands(in *input) Decision {
	var names, all []string
	for _, c := range in.idleCommands() {
		names = append(names, c.name)
		all = append(all, fmt.Sprintf("%s of %s: %s", c.name, in.giver(c.name), c.why))
	}
	first, end := in.idleCommands()[0], "."
	if more := len(names) - 1; more > 0 {
		end = fmt.Sprintf(". And %d more.", more)
	}
	return Decision{
		Step: in.save(in.ledger(), names...), Event: "Warning", Reason: infrav1.ReasonAnnotationIgnored, KeepsConditions: true, RefusesCommands: true,
		Message: inventory.WithDetail(fmt.Sprintf("Removed annotation %s: %s. It was set by ", first.name, first.why), in.giver(first.name), end),
		Detail:  strings.Join(all, ", "),
	}
}

// giver is the user who gave a command.
func (in *input) giver(name string) string {
	if user := inventory.CommandUser(in.host, name); user != "" {
		return user
	}
	return "an unknown user"
}

// ApprovedInstances returns the instances whose data on the host's disks an operator allows to
// be overwritten (I8), until an install or a cleaning succeeds.
func ApprovedInstances(host *infrav1.IngotHost) []string {
	for _, done := range host.Spec.Commands {
		if done.Name == inventory.ShortCommandName(infrav1.ApproveAnnotation) {
			return slices.Clone(done.InstanceIDs)
		}
	}
	return nil
}

// SpendApproval removes the approved instances, after the host's disks were written.
func SpendApproval(host *infrav1.IngotHost) {
	host.Spec.Commands = withoutApprovedInstances(host.Spec.Commands)
}

func withoutApprovedInstances(commands []infrav1.HostCommand) []infrav1.HostCommand {
	out := copyCommands(commands)
	for i := range out {
		out[i].InstanceIDs = nil
	}
	return out
}

// namesInstances reports whether the approval is of instances' disks. It does not approve the
// takeover of a running server.
func (in *input) namesInstances() bool {
	c, _ := inventory.PendingCommand(in.host, infrav1.ApproveAnnotation)
	return in.approved() && len(c.Arguments) > 0
}

// approveInstances stores the instances in the ledger, because the disks may be written long
// after the command has expired.
func approveInstances(in *input) Decision {
	c, _ := inventory.PendingCommand(in.host, infrav1.ApproveAnnotation)
	step := in.save(in.ledger(), infrav1.ApproveAnnotation)
	for i := range step.Ledger.Commands {
		done := &step.Ledger.Commands[i]
		if done.Name != inventory.ShortCommandName(infrav1.ApproveAnnotation) {
			continue
		}
		for _, id := range c.Arguments {
			if !slices.Contains(done.InstanceIDs, id) {
				done.InstanceIDs = append(done.InstanceIDs, id)
			}
		}
		done.InstanceIDs = done.InstanceIDs[max(0, len(done.InstanceIDs)-inventory.MaxApprovedInstances):]
	}
	return Decision{Step: step, Event: "Normal", Reason: infrav1.ReasonCommandExecuted, KeepsConditions: true,
		Message: "Ingot may overwrite the disks of the approved instances until an install or a cleaning succeeds."}
}

// takeoverApproved reports whether Ingot may shut down the server that it found on.
func (in *input) takeoverApproved() bool { return in.approved() && !in.namesInstances() }

// approvalSpent reports whether the approved takeover is complete or was not needed.
func (in *input) approvalSpent() bool { return in.takeoverApproved() && (in.off() || in.expectedOn()) }
