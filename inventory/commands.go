// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file is the commands that a person gives by annotating a host and that would do
// harm on another day: a force-release that came too late would let the next machine of
// the host go without a fence. Each is taken up, waits for what it was given for, or is
// taken away; none lies in wait.

// commandDropped is a command that is taken away, and why.
type commandDropped struct{ name, why string }

// idleCommands are those that nothing will take up as things stand. What is not known is
// not judged.
func (in *input) idleCommands() []commandDropped {
	var idle []commandDropped
	for _, c := range []struct {
		name  string
		waits bool
		why   func() string
	}{
		{infrav1.ForceReleaseAnnotation, in.mayBeForced(), in.whyNotForced},
		{infrav1.ReleaseDanglingAnnotation, in.held() && !in.machineExists(), in.whyNotDangling},
		{infrav1.ClearQuarantineAnnotation, in.clearable(), in.whyNotCleared},
	} {
		if in.annotated(c.name) && !c.waits {
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

// dropCommands takes the idle commands away, and leaves the host as it is.
func dropCommands(in *input) Decision {
	var names, why []string
	for _, c := range in.idleCommands() {
		names = append(names, c.name)
		why = append(why, fmt.Sprintf("%s (%s)", c.name, c.why))
	}
	return Decision{
		Step: in.save(in.ledger(), names...), Event: "Warning", Reason: infrav1.ReasonCommandDropped, Aside: true,
		Message: "without effect as things stand, and taken away, so that nothing comes of it on another day: annotation " + strings.Join(why, ", "),
	}
}

// instanceID is how an instance is written in an approval, or the name of a marker that is
// damaged.
var instanceID = regexp.MustCompile(`^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|` + agentapi.DamagedMarker + `[0-9a-f]{16})$`)

// ApprovedInstances are those whose disks a person has approved to be overwritten on the
// host (I8), with commas between them. Such an approval stays until an install or a cleaning
// has succeeded, since nobody knows when the host is next booted for one. What is no
// instance among them approves nothing.
func ApprovedInstances(host *infrav1.IngotHost) []string {
	var approved []string
	for value := range strings.SplitSeq(strings.ToLower(host.Annotations[infrav1.ApproveAnnotation]), ",") {
		if value = strings.TrimSpace(value); instanceID.MatchString(value) {
			approved = append(approved, value)
		}
	}
	return approved
}

// instanceApproved: the approval is of an instance's disks. It says nothing about a server
// that is found on.
func (in *input) instanceApproved() bool { return len(ApprovedInstances(in.host)) > 0 }

// takeoverApproved: Ingot may shut the server down that it found on.
func (in *input) takeoverApproved() bool { return in.approved() && !in.instanceApproved() }

// approvalSpent: what the approval was for is over, or was never needed.
func (in *input) approvalSpent() bool { return in.takeoverApproved() && (in.off() || in.expectedOn()) }

// spentApproval names the approval of an instance, for the write that makes it needless.
func (in *input) spentApproval() []string {
	if !in.instanceApproved() {
		return nil
	}
	return []string{infrav1.ApproveAnnotation}
}
