// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file has the remediation after a failed first boot: it was interrupted before cloud-init
// ended, or cloud-init ended and the bootstrap in it failed. No power cycle helps, because
// cloud-init does not repeat its work. The host is at fault only if that boot did not end.

// LeavesSentinel reports whether the sentinel file exists after a successful bootstrap of the
// Machine, and only then. That holds for Cluster API's kubeadm provider. Others write the file
// in any case or never (MicroK8s), and so may hand-written bootstrap data.
func LeavesSentinel(machine *clusterv1.Machine) bool {
	ref := machine.Spec.Bootstrap.ConfigRef
	return ref.APIGroup == clusterv1.GroupVersionBootstrap.Group && ref.Kind == "KubeadmConfig"
}

// BootstrapFailed reports whether cloud-init has ended in the first boot without the sentinel
// file of the Machine's bootstrap, by the system's report. It is false for a live system, whose
// report may come from an installer.
func BootstrapFailed(report *infrav1.BootedStatus, claim *infrav1.HostClaim, leavesSentinel bool) bool {
	return leavesSentinel && claim.Live == nil && report.Sentinel == infrav1.SentinelMissing
}

// joinTime is how long a Node may take to join after the next boot: kubeadm may have done
// enough for the kubelet to complete the join.
const joinTime = 2 * time.Minute

// firstBootCutOff reports whether the claim's system reported an interrupted first boot.
func (in *input) firstBootCutOff() bool {
	return in.hasBooted() && in.obs.Host.Status.Booted.Interrupted != nil && *in.obs.Host.Status.Booted.Interrupted
}

// bootstrapFailed reports whether the claim's system reported a failed bootstrap.
func (in *input) bootstrapFailed() bool {
	return in.hasBooted() && BootstrapFailed(in.obs.Host.Status.Booted, in.claim, in.obs.Machine.LeavesSentinel)
}

// hasBooted reports whether the claim's system has reported.
func (in *input) hasBooted() bool {
	return in.obs.Host.Status.Booted != nil && in.obs.Host.Status.Booted.InstanceID == in.claim.InstanceID
}

func (in *input) joined() bool    { return in.obs.Machine.Joined }
func (in *input) notJoined() bool { return !in.obs.Machine.Joined }

// joinDue is until when the Node may join.
func (in *input) joinDue() time.Time {
	return in.from(in.obs.Host.Status.Booted.ReportTime.Time).Add(joinTime)
}
func (in *input) joinOverdue() bool { return !in.obs.Now.Before(in.joinDue()) }

// healthDue is until when a Node that joined nevertheless has time to become healthy.
func (in *input) healthDue() time.Time {
	return in.obs.Host.Status.Booted.ReportTime.Add(in.timeout())
}
func (in *input) nodeYoung() bool { return in.obs.Now.Before(in.healthDue()) }

// cutByCycle reports whether a power cycle of a running host ended the first boot, which had
// taken too long. If the BMC was unavailable since the install, a power failure may have ended
// the boot instead.
func (in *input) cutByCycle() bool {
	cycle, told := in.claim.PowerCycle, in.obs.Host.Status.Conditions
	cut := cycle != nil && cycle.ConfirmedOff != nil && *cycle.ConfirmedOff && cycle.WasOn != nil && *cycle.WasOn
	installed, answers := meta.FindStatusCondition(told, infrav1.HostProvisionedCondition), meta.FindStatusCondition(told, infrav1.HostBMCReachableCondition)
	return cut && !in.obs.Host.Status.Booted.ReportTime.Before(&cycle.CompletionTime) && installed != nil && answers != nil &&
		answers.Status == metav1.ConditionTrue && !answers.LastTransitionTime.After(installed.LastTransitionTime.Time)
}

// firstBoot returns how the first boot failed, and the reason.
func (in *input) firstBoot() (reason, message string) {
	if in.firstBootCutOff() {
		return infrav1.ReasonFirstBootInterrupted, fmt.Sprintf("The first boot of %s was interrupted before cloud-init ended", in.host())
	}
	return infrav1.ReasonBootstrapFailed, fmt.Sprintf("The bootstrap of %s failed: no sentinel file after cloud-init", in.host())
}

func waitYoung(in *input) Decision {
	_, what := in.firstBoot()
	return Decision{Step: Wait{Until: in.healthDue()}, Event: "Normal", Reason: infrav1.ReasonWaitingForNode,
		Message: fmt.Sprintf("%s, but the Node joined. It has until %s to become healthy.", what, inventory.FormatTime(in.healthDue()))}
}

func waitJoin(in *input) Decision {
	reason, what := in.firstBoot()
	return Decision{Step: Wait{Until: in.joinDue()}, Event: "Normal", Reason: reason,
		Message: fmt.Sprintf("%s. The Node has until %s to join, then the owner replaces the Machine.", what, inventory.FormatTime(in.joinDue()))}
}

func handOverUnjoined(in *input) Decision {
	_, what := in.firstBoot()
	return delegateToOwner(infrav1.ReasonOwnerRemediationRequested, what+". No Node joined")
}

func quarantineCutOff(in *input) Decision {
	return in.quarantineAndReplace(infrav1.ReasonHealthFailed, fmt.Sprintf("The first boot for IngotMachine %s had not ended at the power cycle, and no Node joined.", in.claim.MachineRef.Name))
}
