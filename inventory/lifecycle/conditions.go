// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// Conditions returns the conditions of a host, always the same types in the same order. It
// leaves LastTransitionTime to the caller (meta.SetStatusCondition).
func Conditions(host *infrav1.IngotHost, obs Observation, decision Decision) []metav1.Condition {
	in := inputOf(host)
	in.obs = obs
	conditions := []metav1.Condition{
		in.bmcReachable(),
		in.credentialsValid(),
		in.unique(),
		in.inspectedCondition(decision),
		in.available(decision),
		in.prepared(decision),
		in.provisionedCondition(decision),
		in.cleaned(decision),
		in.fencedCondition(decision),
		in.healthy(),
		in.bootSecure(),
		ready(decision),
		stalled(decision),
	}
	for i := range conditions {
		conditions[i].ObservedGeneration = host.Generation
	}
	return conditions
}

func ready(decision Decision) metav1.Condition {
	switch decision.Reason {
	case infrav1.ReasonAvailable, infrav1.ReasonProvisioned:
		return inventory.TrueCondition(infrav1.ReadyCondition, decision.Reason, decision.Message)
	default:
		return inventory.FalseCondition(infrav1.ReadyCondition, decision.Reason, decision.Message)
	}
}

// operatorReasons are the reasons with which a host waits for an operator, and not for objects
// that a tool may apply next.
var operatorReasons = []string{
	infrav1.ReasonMaintenance, infrav1.ReasonPoweredOff, infrav1.ReasonUnmanaged, infrav1.ReasonQuarantined,
	infrav1.ReasonPoweredOnUnexpectedly, infrav1.ReasonWaitingForApproval,
}

func stalled(decision Decision) metav1.Condition {
	const name = infrav1.StalledCondition
	if _, isIdle := decision.Step.(Idle); isIdle && slices.Contains(operatorReasons, decision.Reason) {
		return inventory.TrueCondition(name, decision.Reason, decision.Message)
	}
	return inventory.FalseCondition(name, infrav1.ReasonNotStalled, "The host waits for no operator.")
}

func (in *input) bmcReachable() metav1.Condition {
	const name = infrav1.HostBMCReachableCondition
	switch {
	case in.unmanaged():
		return inventory.UnknownCondition(name, infrav1.ReasonUnmanaged, "The host has no BMC in spec.bmc.")
	case in.obs.BMC == BMCOK, in.obs.BMC == BMCUnauthorized, in.obs.BMC == BMCPasswordChange:
		return inventory.TrueCondition(name, infrav1.ReasonBMCResponding, "The BMC answers.")
	case in.obs.BMC == BMCCredentialsMissing, in.obs.BMC == BMCCAMissing:
		return inventory.UnknownCondition(name, bmcReason(in.obs.BMC), in.bmcMessage())
	default:
		return inventory.FalseCondition(name, bmcReason(in.obs.BMC), in.bmcMessage())
	}
}

func (in *input) credentialsValid() metav1.Condition {
	const name = infrav1.HostCredentialsValidCondition
	switch {
	case in.unmanaged():
		return inventory.UnknownCondition(name, infrav1.ReasonUnmanaged, "The host has no BMC in spec.bmc.")
	case in.obs.BMC == BMCOK, in.obs.BMC == BMCIgnoresPower:
		return inventory.TrueCondition(name, infrav1.ReasonCredentialsAccepted, "The BMC accepts the credentials.")
	case in.obs.BMC == BMCUnauthorized, in.obs.BMC == BMCPasswordChange, in.obs.BMC == BMCCredentialsMissing:
		return inventory.FalseCondition(name, bmcReason(in.obs.BMC), in.bmcMessage())
	default:
		return inventory.UnknownCondition(name, bmcReason(in.obs.BMC), "Ingot could not ask the BMC. See the condition "+infrav1.HostBMCReachableCondition+".")
	}
}

func (in *input) unique() metav1.Condition {
	const name = infrav1.HostUniqueCondition
	if in.duplicate() {
		return inventory.FalseCondition(name, infrav1.ReasonDuplicate, sayDuplicate(in).Message)
	}
	return inventory.TrueCondition(name, infrav1.HostUniqueCondition, "No other host is the same server.")
}

func (in *input) inspectedCondition(decision Decision) metav1.Condition {
	const name = infrav1.HostInspectedCondition
	switch {
	case in.factsMissing() && in.free():
		return inventory.FalseCondition(name, infrav1.ReasonWaiting, "The IngotHardware of the host does not exist. Ingot inspects the host again before it becomes Available.")
	case in.inspected():
		return inventory.TrueCondition(name, infrav1.ReasonInspected, "The agent reported the hardware at "+inventory.FormatTime(in.record.InspectedTime.Time)+".")
	case in.quarantined() && in.record.Quarantine.Reason == infrav1.QuarantineInspectFailed:
		return inventory.FalseCondition(name, infrav1.ReasonInspectFailed, in.quarantineMessage())
	case in.ordered() && in.isInspect():
		return inventory.FalseCondition(name, infrav1.ReasonInspecting, decision.Message)
	default:
		return inventory.FalseCondition(name, infrav1.ReasonWaiting, decision.Message)
	}
}

func (in *input) available(decision Decision) metav1.Condition {
	const name = infrav1.HostAvailableCondition
	switch {
	case in.claimed():
		return inventory.FalseCondition(name, infrav1.ReasonClaimed, fmt.Sprintf("Claimed by IngotMachine %s of cluster %s.", in.claim.MachineRef.Name, in.claim.ClusterName))
	case decision.Reason == infrav1.ReasonAvailable:
		return inventory.TrueCondition(name, infrav1.ReasonAvailable, decision.Message)
	default:
		return inventory.FalseCondition(name, decision.Reason, decision.Message)
	}
}

func (in *input) provisionedCondition(decision Decision) metav1.Condition {
	const name = infrav1.HostProvisionedCondition
	switch {
	case in.provisioned():
		return inventory.TrueCondition(name, infrav1.ReasonProvisioned, fmt.Sprintf("Installed for IngotMachine %s, attempt %d.", in.claim.MachineRef.Name, in.claim.Attempt))
	case in.provisioning():
		return inventory.FalseCondition(name, infrav1.ReasonProvisioning, decision.Message)
	case in.releasing():
		return inventory.FalseCondition(name, infrav1.ReasonReleasing, decision.Message)
	default:
		return inventory.FalseCondition(name, infrav1.ReasonNotClaimed, "No machine claims the host.")
	}
}

func (in *input) cleaned(decision Decision) metav1.Condition {
	const name = infrav1.HostCleanedCondition
	switch {
	case in.quarantined() && in.record.Quarantine.Reason == infrav1.QuarantineCleanFailed:
		return inventory.FalseCondition(name, infrav1.ReasonCleanFailed, in.quarantineMessage())
	case in.ordered() && in.isWipe():
		return inventory.FalseCondition(name, infrav1.ReasonCleaning, decision.Message)
	case in.claimed() && in.claim.Attempt > 0:
		return inventory.FalseCondition(name, infrav1.ReasonNotCleaned, fmt.Sprintf("The disks hold data of IngotMachine %s.", in.claim.MachineRef.Name))
	case in.cleaningDue():
		return inventory.FalseCondition(name, infrav1.ReasonNotCleaned, "Ingot cleans the host before a machine can claim it.")
	case in.record != nil && in.record.LastClusterName != "":
		return inventory.FalseCondition(name, infrav1.ReasonNotCleaned, fmt.Sprintf("The disks hold data of cluster %s. No other cluster can claim the host before it is cleaned.", in.record.LastClusterName))
	case in.record != nil && !in.record.SanitizedTime.IsZero() && len(in.record.UncleanedStorage) > 0:
		return inventory.FalseCondition(name, infrav1.ReasonStorageWithoutDriver, inventory.WithDetail("Disks were not seen and not cleaned behind ",
			inventory.DescribeControllers(in.record.UncleanedStorage), ". "+inventory.UnseenStorageRemedy+"."))
	case in.record != nil && !in.record.SanitizedTime.IsZero():
		return inventory.TrueCondition(name, infrav1.ReasonCleaned, "The agent confirmed the cleaning at "+inventory.FormatTime(in.record.SanitizedTime.Time)+".")
	default:
		return inventory.UnknownCondition(name, infrav1.ReasonNotApplicable, "Ingot has installed and cleaned nothing on this host.")
	}
}

func (in *input) fencedCondition(decision Decision) metav1.Condition {
	const name = infrav1.HostFencedCondition
	switch {
	case in.quarantinedNotFenced():
		return inventory.FalseCondition(name, infrav1.ReasonNotFenced, in.quarantineMessage())
	case in.releasing() && in.fenced():
		return inventory.TrueCondition(name, infrav1.ReasonFenced, "The BMC confirmed the power-off at "+inventory.FormatTime(in.claim.FencedTime.Time)+".")
	case in.releasing():
		return inventory.FalseCondition(name, infrav1.ReasonFencing, decision.Message)
	default:
		return inventory.UnknownCondition(name, infrav1.ReasonNotApplicable, "No machine releases the host.")
	}
}

// quarantineMessage is why the host is quarantined.
func (in *input) quarantineMessage() string {
	return inventory.WithDetail("", in.record.Quarantine.Message, ".")
}

// IsClaimable reports whether a host in a cache may be claimed, or else why not, in a few words.
// An empty or outdated status makes a host not claimable until it was observed again (I3).
// Select decides whether an uncleaned host suits a cluster (I12).
func IsClaimable(host *infrav1.IngotHost) (bool, string) {
	in := inputOf(host)
	_, paused := host.Annotations[clusterv1.PausedAnnotation]
	_, moving := host.Annotations[infrav1.MovePausedAnnotation]
	available := meta.FindStatusCondition(host.Status.Conditions, infrav1.HostAvailableCondition)
	for _, no := range []struct {
		holds bool
		why   string
	}{
		{!host.DeletionTimestamp.IsZero(), "being deleted"},
		{in.unmanaged(), "without a BMC"},
		{paused || moving, "paused"},
		{in.claimed(), "claimed"},
		{in.maintenance(), "in maintenance"},
		{in.quarantined(), "quarantined"},
		{in.wantedOff(), "kept off by spec.power"},
		{!in.inspected(), "not inspected"},
		{in.cleaningDue(), "waiting to be cleaned"},
		{in.ordered() || in.inspectAsked(), "busy"},
		{in.commandIdle(), "annotated with a command that Ingot has not yet removed"},
		{in.notPrepared(), "without the desired settings or firmware"},
		{available == nil || available.ObservedGeneration != host.Generation, "not observed since their last change"},
		{available != nil && available.Status != metav1.ConditionTrue, "not available"},
	} {
		if no.holds {
			return false, no.why
		}
	}
	return true, ""
}

// IsOutOfService reports whether an operator or the quarantine keeps an unclaimed host from
// machines. Unlike a busy host it does not become claimable without an operator.
func IsOutOfService(host *infrav1.IngotHost) bool {
	in := inputOf(host)
	_, paused := host.Annotations[clusterv1.PausedAnnotation]
	_, moving := host.Annotations[infrav1.MovePausedAnnotation]
	return !in.claimed() && (in.unmanaged() || paused || moving || in.maintenance() || in.quarantined() || in.wantedOff())
}

// IsFreeBySpec reports whether a machine could have the host by its spec alone, without status.
func IsFreeBySpec(host *infrav1.IngotHost) bool {
	in := inputOf(host)
	return in.usable() && in.idleHost() && !in.quarantined()
}

// IsReturning reports whether the cluster has released the host, so that another machine of the
// cluster can have it once it is clean. Without that, a control plane that replaces its machines
// one by one without a spare host would move to another failure domain. A host that the
// remediation quarantines does not return.
func IsReturning(host *infrav1.IngotHost, clusterName string) bool {
	in := inputOf(host)
	return in.usable() && in.state(infrav1.ClaimReleasing) && in.claim.ClusterName == clusterName && in.claim.Quarantine == nil
}

// usable reports whether no operator keeps the host out of service.
func (in *input) usable() bool {
	return in.host.DeletionTimestamp.IsZero() && !in.unmanaged() && !in.maintenance() && !in.wantedOff()
}

// inputOf returns the input of a host without an observation.
func inputOf(host *infrav1.IngotHost) *input {
	return &input{host: host, claim: host.Spec.Claim, record: host.Spec.Record, order: host.Spec.Order}
}
