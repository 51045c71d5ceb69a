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

// maxConditionMessage is the bound of metav1.Condition.message, in characters.
const maxConditionMessage = 32768

// Conditions tells what is so of a host: always the same types in the same order,
// and the same answer to the same question. LastTransitionTime is left to whoever
// saves them (meta.SetStatusCondition).
func Conditions(host *infrav1.IngotHost, obs Observation, decision Decision) []metav1.Condition {
	in := &input{host: host, claim: host.Spec.Claim, record: host.Spec.Record, order: host.Spec.Order, obs: obs}
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
		conditions[i].Message = inventory.Truncate(conditions[i].Message, maxConditionMessage)
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

// personal are the reasons with which a host waits for a person, and for nothing that may come
// by itself while a tool applies objects one after the other.
var personal = []string{
	infrav1.ReasonMaintenance, infrav1.ReasonPoweredOff, infrav1.ReasonUnmanaged, infrav1.ReasonQuarantined,
	infrav1.ReasonUnexpectedlyOn, infrav1.ReasonWaitingForApproval,
}

func stalled(decision Decision) metav1.Condition {
	const name = infrav1.StalledCondition
	if _, isIdle := decision.Step.(Idle); isIdle && slices.Contains(personal, decision.Reason) {
		return inventory.TrueCondition(name, decision.Reason, decision.Message)
	}
	return inventory.FalseCondition(name, infrav1.ReasonNotStalled, "The host waits for no person.")
}

func (in *input) bmcReachable() metav1.Condition {
	const name = infrav1.HostBMCReachableCondition
	switch {
	case in.unmanaged():
		return inventory.UnknownCondition(name, infrav1.ReasonUnmanaged, "the host has no BMC in spec.bmc")
	case in.obs.BMC == BMCOK, in.obs.BMC == BMCUnauthorized, in.obs.BMC == BMCPasswordChange:
		return inventory.TrueCondition(name, infrav1.ReasonBMCAnswers, "the BMC answers")
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
		return inventory.UnknownCondition(name, infrav1.ReasonUnmanaged, "the host has no BMC in spec.bmc")
	case in.obs.BMC == BMCOK, in.obs.BMC == BMCDisobeys:
		return inventory.TrueCondition(name, infrav1.ReasonCredentialsAccepted, "the BMC accepts the credentials")
	case in.obs.BMC == BMCUnauthorized, in.obs.BMC == BMCPasswordChange, in.obs.BMC == BMCCredentialsMissing:
		return inventory.FalseCondition(name, bmcReason(in.obs.BMC), in.bmcMessage())
	default:
		return inventory.UnknownCondition(name, bmcReason(in.obs.BMC), "the BMC could not be asked; see condition "+infrav1.HostBMCReachableCondition)
	}
}

func (in *input) unique() metav1.Condition {
	const name = infrav1.HostUniqueCondition
	if in.duplicate() {
		return inventory.FalseCondition(name, infrav1.ReasonDuplicate, sayDuplicate(in).Message)
	}
	return inventory.TrueCondition(name, infrav1.HostUniqueCondition, "no other host is known to be the same server")
}

func (in *input) inspectedCondition(decision Decision) metav1.Condition {
	const name = infrav1.HostInspectedCondition
	switch {
	case in.factsMissing() && in.free():
		return inventory.FalseCondition(name, infrav1.ReasonWaiting, "The IngotHardware with what was found is lost. Ingot inspects the host again before it is Available.")
	case in.inspected():
		return inventory.TrueCondition(name, infrav1.ReasonInspected, "the agent reported the hardware at "+inventory.FormatTime(in.record.InspectedAt.Time))
	case in.quarantined() && in.record.Quarantine.Reason == infrav1.QuarantineInspectFailed:
		return inventory.FalseCondition(name, infrav1.ReasonInspectFailed, in.record.Quarantine.Message)
	case in.ordered() && in.isInspect():
		return inventory.FalseCondition(name, infrav1.ReasonInspecting, decision.Message)
	default:
		return inventory.FalseCondition(name, infrav1.ReasonWaiting, "not inspected yet: "+decision.Message)
	}
}

func (in *input) available(decision Decision) metav1.Condition {
	const name = infrav1.HostAvailableCondition
	switch {
	case in.claimed():
		return inventory.FalseCondition(name, infrav1.ReasonClaimed, fmt.Sprintf("claimed by IngotMachine %s of cluster %s", in.claim.MachineRef.Name, in.claim.ClusterName))
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
		return inventory.TrueCondition(name, infrav1.ReasonProvisioned, fmt.Sprintf("installed for IngotMachine %s, attempt %d", in.claim.MachineRef.Name, in.claim.Attempt))
	case in.provisioning():
		return inventory.FalseCondition(name, infrav1.ReasonProvisioning, decision.Message)
	case in.releasing():
		return inventory.FalseCondition(name, infrav1.ReasonReleasing, decision.Message)
	default:
		return inventory.FalseCondition(name, infrav1.ReasonNotClaimed, "no machine claims the host")
	}
}

func (in *input) cleaned(decision Decision) metav1.Condition {
	const name = infrav1.HostCleanedCondition
	switch {
	case in.quarantined() && in.record.Quarantine.Reason == infrav1.QuarantineWipeFailed:
		return inventory.FalseCondition(name, infrav1.ReasonWipeFailed, in.record.Quarantine.Message)
	case in.ordered() && in.isWipe():
		return inventory.FalseCondition(name, infrav1.ReasonWiping, decision.Message)
	case in.claimed() && in.claim.Attempt > 0:
		return inventory.FalseCondition(name, infrav1.ReasonNotCleaned, fmt.Sprintf("holds data of IngotMachine %s", in.claim.MachineRef.Name))
	case in.cleaningDue():
		return inventory.FalseCondition(name, infrav1.ReasonNotCleaned, "a cleaning is due before the host can be claimed again")
	case in.record != nil && in.record.LastClusterName != "":
		return inventory.FalseCondition(name, infrav1.ReasonNotCleaned, fmt.Sprintf("holds data of cluster %s, and serves no other before it is cleaned", in.record.LastClusterName))
	case in.record != nil && !in.record.SanitizedAt.IsZero() && len(in.record.UncleanedStorage) > 0:
		return inventory.FalseCondition(name, infrav1.ReasonStorageWithoutDriver, fmt.Sprintf("the agent confirmed at %s that the disks which it saw are clean; behind the storage controllers %s it saw none or not all, and nothing was cleaned of those. %s; disks that appear by it are not clean",
			inventory.FormatTime(in.record.SanitizedAt.Time), inventory.DescribeControllers(in.record.UncleanedStorage), inventory.BlindRemedy))
	case in.record != nil && !in.record.SanitizedAt.IsZero():
		return inventory.TrueCondition(name, infrav1.ReasonCleaned, "the agent confirmed the cleaning at "+inventory.FormatTime(in.record.SanitizedAt.Time))
	default:
		return inventory.UnknownCondition(name, infrav1.ReasonNotApplicable, "Ingot has installed nothing on this host, and cleaned nothing")
	}
}

func (in *input) fencedCondition(decision Decision) metav1.Condition {
	const name = infrav1.HostFencedCondition
	switch {
	case in.quarantinedNotFenced():
		return inventory.FalseCondition(name, infrav1.ReasonNotFenced, in.record.Quarantine.Message)
	case in.releasing() && in.fenced():
		return inventory.TrueCondition(name, infrav1.ReasonFenced, "the BMC confirmed the power-off at "+inventory.FormatTime(in.claim.FencedAt.Time))
	case in.releasing():
		return inventory.FalseCondition(name, infrav1.ReasonFencing, decision.Message)
	default:
		return inventory.UnknownCondition(name, infrav1.ReasonNotApplicable, "no machine releases the host")
	}
}

// Claimable says whether a host, as a cache shows it, may be claimed, and if not a
// reason in a few words. It trusts status only for what it grants: an empty or an
// outdated status makes a host not claimable until it was observed again (I3).
// Whether a host that was not cleaned suits a cluster is Select's to say (I12).
func Claimable(host *infrav1.IngotHost) (bool, string) {
	in := inputOf(host)
	_, paused := host.Annotations[clusterv1.PausedAnnotation]
	_, moving := host.Annotations[infrav1.MovePausedAnnotation]
	available := meta.FindStatusCondition(host.Status.Conditions, infrav1.HostAvailableCondition)
	for _, no := range []struct {
		so  bool
		why string
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
		{in.commandIdle(), "annotated with a command that is not taken away yet"},
		{in.notPrepared(), "without the settings or firmware wanted"},
		{available == nil || available.ObservedGeneration != host.Generation, "not observed since their last change"},
		{available != nil && available.Status != metav1.ConditionTrue, "not available"},
	} {
		if no.so {
			return false, no.why
		}
	}
	return true, ""
}

// OutOfService reports whether a person, or the quarantine, keeps an unclaimed host from
// machines: unlike a busy host it does not become claimable by itself.
func OutOfService(host *infrav1.IngotHost) bool {
	in := inputOf(host)
	_, paused := host.Annotations[clusterv1.PausedAnnotation]
	_, moving := host.Annotations[infrav1.MovePausedAnnotation]
	return !in.claimed() && (in.unmanaged() || paused || moving || in.maintenance() || in.quarantined() || in.wantedOff())
}

// FreeBySpec says whether, by its spec alone, a machine could have the host: what people asked
// for and the ledger, not what was seen.
func FreeBySpec(host *infrav1.IngotHost) bool {
	in := inputOf(host)
	return in.usable() && in.idleHost() && !in.quarantined()
}

// Returning says whether the cluster has given the host back and it is being fenced
// and cleaned: soon another machine of the cluster can have it. Without this a control
// plane that replaces machine by machine, without a spare host, would be sent
// elsewhere the moment the old machine is gone. One that a remediation has condemned
// goes out of service when it is clean.
func Returning(host *infrav1.IngotHost, clusterName string) bool {
	in := inputOf(host)
	return in.usable() && in.state(infrav1.ClaimReleasing) && in.claim.ClusterName == clusterName && in.claim.Quarantine == nil
}

// usable: nobody keeps the host out of service.
func (in *input) usable() bool {
	return in.host.DeletionTimestamp.IsZero() && !in.unmanaged() && !in.maintenance() && !in.wantedOff()
}

// inputOf is what a host's object says without anything seen of it.
func inputOf(host *infrav1.IngotHost) *input {
	return &input{host: host, claim: host.Spec.Claim, record: host.Spec.Record, order: host.Spec.Order}
}
