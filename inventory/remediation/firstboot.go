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

// This file is what a remediation does about a Machine whose first boot came to nothing:
// it was cut off before cloud-init had ended (decision 0275), or cloud-init has ended and
// the bootstrap in it has failed (0283). No power cycle helps it, since cloud-init does not
// begin anew what it had begun. Its host is to blame only if that boot came to no end by
// itself.

// LeavesSentinel says whether the sentinel file is there after a bootstrap of this Machine
// that succeeded, and only then: Cluster API's kubeadm provider writes it so. Others write it
// whatever came before, or never (MicroK8s), and who writes bootstrap data by hand need not.
func LeavesSentinel(machine *clusterv1.Machine) bool {
	ref := machine.Spec.Bootstrap.ConfigRef
	return ref.APIGroup == clusterv1.GroupVersionBootstrap.Group && ref.Kind == "KubeadmConfig"
}

// BootstrapFailed: by the report of a system cloud-init has ended in its first boot, and the
// sentinel file is missing that the Machine's bootstrap leaves. Of a live system nothing is
// known: what reports is perhaps an installer. A Node that joined is judged as any.
func BootstrapFailed(report *infrav1.BootedStatus, claim *infrav1.HostClaim, leavesSentinel bool) bool {
	return leavesSentinel && claim.Live == nil && report.Sentinel == infrav1.SentinelMissing
}

// joinTime is how long a Node may take to join after the boot that followed: kubeadm may
// have come so far that the kubelet does the rest.
const joinTime = 2 * time.Minute

// firstBootCutOff: the system that the claim installed said so of itself.
func (in *input) firstBootCutOff() bool {
	return in.hasBooted() && in.obs.Host.Status.Booted.Interrupted != nil && *in.obs.Host.Status.Booted.Interrupted
}

// bootstrapFailed: the same, and that its bootstrap did not succeed.
func (in *input) bootstrapFailed() bool {
	return in.hasBooted() && BootstrapFailed(in.obs.Host.Status.Booted, in.claim, in.obs.Machine.LeavesSentinel)
}

// hasBooted: the system that the claim installed has reported.
func (in *input) hasBooted() bool {
	return in.obs.Host.Status.Booted != nil && in.obs.Host.Status.Booted.InstanceID == in.claim.InstanceID
}

func (in *input) joined() bool    { return in.obs.Machine.Joined }
func (in *input) notJoined() bool { return !in.obs.Machine.Joined }

// joinDue is until when the Node has time to join.
func (in *input) joinDue() time.Time {
	return in.from(in.obs.Host.Status.Booted.Time.Time).Add(joinTime)
}
func (in *input) joinOverdue() bool { return !in.obs.Now.Before(in.joinDue()) }

// healthDue is until when a Node that has joined all the same has time to be healthy. After
// a pause it is given as any Node is.
func (in *input) healthDue() time.Time {
	return in.obs.Host.Status.Booted.Time.Add(in.timeout())
}
func (in *input) nodeYoung() bool { return in.obs.Now.Before(in.healthDue()) }

// cutByCycle: the first boot went on for so long that it was taken for dead, and ended with
// a power cycle of a host that was on. A BMC that was away since the installation may have
// lost its power, and the server with it.
func (in *input) cutByCycle() bool {
	cycle, told := in.claim.PowerCycle, in.obs.Host.Status.Conditions
	cut := cycle != nil && cycle.ConfirmedOff != nil && *cycle.ConfirmedOff && cycle.WasOn != nil && *cycle.WasOn
	installed, answers := meta.FindStatusCondition(told, infrav1.HostProvisionedCondition), meta.FindStatusCondition(told, infrav1.HostBMCReachableCondition)
	return cut && !in.obs.Host.Status.Booted.Time.Before(&cycle.DoneAt) && installed != nil && answers != nil &&
		answers.Status == metav1.ConditionTrue && !answers.LastTransitionTime.After(installed.LastTransitionTime.Time)
}

// firstBoot says what became of it, and with which reason.
func (in *input) firstBoot() (reason, message string) {
	if in.firstBootCutOff() {
		return infrav1.ReasonFirstBootInterrupted, fmt.Sprintf("the first boot of %s was cut off before cloud-init had ended", in.host())
	}
	return infrav1.ReasonBootstrapFailed, fmt.Sprintf("the bootstrap of %s has failed: cloud-init has ended without the sentinel file of kubeadm's provider", in.host())
}

func waitYoung(in *input) Decision {
	_, what := in.firstBoot()
	return Decision{Step: Wait{Until: in.healthDue()}, Event: "Normal", Reason: infrav1.ReasonWaitingForNode,
		Message: fmt.Sprintf("%s, and the Node has joined all the same: it has until %s to be healthy", what, inventory.FormatTime(in.healthDue()))}
}

func waitJoin(in *input) Decision {
	reason, what := in.firstBoot()
	return Decision{Step: Wait{Until: in.joinDue()}, Event: "Normal", Reason: reason,
		Message: fmt.Sprintf("%s, which no power cycle helps: the Node has until %s to join by itself, then the Machine is handed over", what, inventory.FormatTime(in.joinDue()))}
}

func handOverUnjoined(in *input) Decision {
	_, what := in.firstBoot()
	return handOver(infrav1.ReasonHandedOver, what+"; what it had begun is not begun anew, and no Node has joined; that is not held against the host")
}

func condemnCutOff(in *input) Decision {
	return in.condemn(infrav1.ReasonHealthFailed, fmt.Sprintf("the first boot of the system for IngotMachine %s had not come to its end when the power was cycled, and no Node has joined", in.claim.MachineRef.Name))
}
