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

// This file decides about the commands that an operator gives by annotating a host. Each is
// carried out, waits at most an hour for its occasion, or is refused and removed: a
// force-release that came too late would let the next machine of the host go without a fence.

// commandDropped is a command that is taken away, and why.
type commandDropped struct{ name, why string }

// idleCommands are those that nothing will take up as things stand. What is not known is
// not judged.
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
		{infrav1.ReleaseDanglingAnnotation, in.held() && !in.machineExists(), in.whyNotDangling},
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

// mayBeForced: the machine waits for the fence, or soon will: its Machine is being deleted,
// which for hours may mean drained, and cannot be called off.
func (in *input) mayBeForced() bool {
	if in.held() {
		return in.obs.MachineDeleting || !in.machineExists()
	}
	return in.releasing() && in.notFenced()
}

// clearable: quarantined for what a person can mend.
func (in *input) clearable() bool { return in.quarantined() && !in.quarantinedNotFenced() }

func (in *input) whyNotForced() string {
	switch {
	case in.held():
		return fmt.Sprintf("IngotMachine %s is not being released; set it again once its Machine is being deleted and the BMC does not confirm that the server is off",
			in.claim.MachineRef.Name)
	case in.claimed():
		return "the BMC has confirmed that the host is off already, and its machine is released; to let the object go uncleaned, delete it first"
	default:
		return "no machine has the host; to let the object go at once, delete it first"
	}
}

func (in *input) whyNotDangling() string {
	return "the host does not dangle: no claim of it names an IngotMachine that is missing"
}

func (in *input) whyNotCleared() string {
	if in.quarantinedNotFenced() {
		return "this quarantine ends by itself when the BMC confirms that the host is off"
	}
	return "the host is not in quarantine"
}

// dropCommands removes the idle commands and remembers them, so that an annotation that is
// set again with the same value, as from a repository, has no effect and stays.
func dropCommands(in *input) Decision {
	var names, why []string
	for _, c := range in.idleCommands() {
		names = append(names, c.name)
		why = append(why, fmt.Sprintf("%s of %s: %s", c.name, in.giver(c.name), c.why))
	}
	return Decision{
		Step: in.save(in.ledger(), names...), Event: "Warning", Reason: infrav1.ReasonCommandDropped, Aside: true, Refuses: true,
		Message: "Removed without effect: annotation " + strings.Join(why, ", "),
	}
}

// giver names who gave a command, for people.
func (in *input) giver(name string) string {
	if user := inventory.CommandUser(in.host, name); user != "" {
		return user
	}
	return "an unknown user"
}

// ApprovedInstances are those whose disks an operator has approved to be overwritten on the
// host (I8), until an install or a cleaning has succeeded: it is not known when the host is
// next booted for one.
func ApprovedInstances(host *infrav1.IngotHost) []string {
	for _, done := range host.Spec.Commands {
		if done.Name == inventory.ShortCommandName(infrav1.ApproveAnnotation) {
			return slices.Clone(done.InstanceIDs)
		}
	}
	return nil
}

// SpendApproval forgets the approved instances: the host's disks were written since.
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

// namesInstances: the approval is of instances' disks. It says nothing about a server that
// is found on.
func (in *input) namesInstances() bool {
	c, _ := inventory.PendingCommand(in.host, infrav1.ApproveAnnotation)
	return in.approved() && len(c.Arguments) > 0
}

// approveInstances takes the instances into the ledger: the disks may be written long after
// the command has expired.
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
	return Decision{Step: step, Event: "Normal", Reason: infrav1.ReasonCommandExecuted, Aside: true,
		Message: "The disks of the approved instances may be overwritten until an install or a cleaning has succeeded."}
}

// takeoverApproved: Ingot may shut the server down that it found on.
func (in *input) takeoverApproved() bool { return in.approved() && !in.namesInstances() }

// approvalSpent: what the approval was for is over, or was never needed.
func (in *input) approvalSpent() bool { return in.takeoverApproved() && (in.off() || in.expectedOn()) }
