// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// This file is what a remediation does about a Machine whose first boot was cut off before
// cloud-init had ended: no power cycle helps it, since cloud-init does not begin anew what
// it had begun (decision 0275), and its host is not to blame.

// joinTime is how long a Node may take to join after the boot that followed: kubeadm may
// have come so far that the kubelet does the rest.
const joinTime = 2 * time.Minute

// firstBootCutOff: the system that the claim installed said so of itself.
func (in *remedyInput) firstBootCutOff() bool {
	booted := in.obs.Host.Status.Booted
	return booted != nil && booted.InstanceID == in.claim.InstanceID && booted.Interrupted != nil && *booted.Interrupted
}

func (in *remedyInput) notJoined() bool { return !in.obs.Machine.Joined }

// joinDue is until when the Node has time to join.
func (in *remedyInput) joinDue() time.Time {
	return in.from(in.obs.Host.Status.Booted.Time.Time).Add(joinTime)
}
func (in *remedyInput) joinOverdue() bool { return !in.obs.Now.Before(in.joinDue()) }

func waitJoin(in *remedyInput) RemedyDecision {
	return RemedyDecision{Step: Wait{Until: in.joinDue()}, Event: "Normal", Reason: infrav1.ReasonFirstBootInterrupted,
		Message: fmt.Sprintf("the first boot of %s was cut off before cloud-init had ended, which no power cycle helps: the Node has until %s to join by itself, then the Machine is handed over to be replaced",
			in.host(), clock(in.joinDue()))}
}

func handOverCutOff(in *remedyInput) RemedyDecision {
	return handOver(infrav1.ReasonHandedOver, fmt.Sprintf("the first boot of %s was cut off before cloud-init had ended, which leaves out for good what it had begun, and no Node has joined; that is not held against the host", in.host()))
}
