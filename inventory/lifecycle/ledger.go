// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file is every change of the ledger that the host's life makes. The other
// two writers are the machine's controller (claim written, state Releasing) and
// the agent's session (key, result, commit point).

func (in *input) ledger() Ledger { return LedgerOf(in.host) }

func (in *input) now() metav1.Time { return metav1.Time{Time: in.obs.Now} }

func (in *input) failures() int32 {
	if in.record == nil {
		return 0
	}
	return in.record.Failures
}

// recorded returns the record, made if there is none.
func (l *Ledger) recorded() *infrav1.HostRecord {
	if l.Record == nil {
		l.Record = &infrav1.HostRecord{}
	}
	return l.Record
}

// endClaim turns a claim into a record that remembers what the claim leaves
// behind: what the host is out of service for, a cleaning that is due, or, when none
// was asked for, the cluster whose data is still on the disks (I12). An instance for
// which no install order was ever written leaves nothing on them.
func (l *Ledger) endClaim() {
	claim := l.Claim
	l.Claim = nil
	record := l.recorded()
	record.Preparation = nil // whoever had the host may have changed its settings
	l.keepQuarantine(claim)
	if claim == nil || claim.Attempt == 0 {
		return
	}
	rememberInstance(record, claim.InstanceID)
	cleaning := ReleaseCleaning(claim)
	if cleaning == infrav1.CleaningNone {
		record.LastClusterName = claim.ClusterName
		return
	}
	record.CleaningDue = cleaning
}

// maxEarlierInstances is the schema's bound.
const maxEarlierInstances = 32

// rememberInstance makes the instance the last one of the host. Its marker may be on a
// disk now (I8); but an instance whose image never came has written nothing, and one on
// another disk has left the others as they were: so those before it are remembered too,
// until all disks are wiped.
func rememberInstance(record *infrav1.HostRecord, id string) {
	earlier := record.EarlierInstanceIDs
	if last := record.LastInstanceID; last != "" && !slices.Contains(earlier, last) {
		earlier = append(earlier, last)
	}
	earlier = slices.DeleteFunc(earlier, func(other string) bool { return other == id })
	record.EarlierInstanceIDs = earlier[max(0, len(earlier)-maxEarlierInstances):]
	record.LastInstanceID = id
}

// ReleasedInstances are those whose markers on a disk of the host forbid nobody to write
// it (I8): the host's earlier ones, and those that a person named in the approval.
func ReleasedInstances(host *infrav1.IngotHost) []string {
	var released []string
	if record := host.Spec.Record; record != nil {
		released = slices.Clone(record.EarlierInstanceIDs)
		if record.LastInstanceID != "" {
			released = append(released, record.LastInstanceID)
		}
	}
	return append(released, ApprovedInstances(host)...)
}

// forgetCleaning drops what the last cleaning has shown: from the first install on there
// is something on the disks again, whatever becomes of the host.
func (l *Ledger) forgetCleaning() {
	if l.Record != nil {
		l.Record.SanitizedAt, l.Record.CleanedDisks, l.Record.UncleanedStorage = metav1.Time{}, nil, nil
	}
}

// save writes the ledger and removes annotations; their commands are remembered as carried
// out or refused. One of a time to come is not: it would outdate all others.
func (in *input) save(ledger Ledger, annotations ...string) SaveLedger {
	for _, name := range annotations {
		if c, pending := inventory.PendingCommand(in.host, name); pending && !c.Ahead(in.obs.Now) {
			inventory.RememberCommand(&ledger.Commands, in.host, c)
		}
	}
	return SaveLedger{Ledger: ledger, RemoveAnnotations: annotations}
}

func forceRelease(in *input) Decision {
	ledger := in.ledger()
	ledger.endClaim()
	ledger.Order = nil
	ledger.Record.Quarantine = &infrav1.Quarantine{
		Reason:  infrav1.QuarantineNotFenced,
		Message: "released by force: the BMC has not confirmed that the server is off, and it may still run the system of " + in.claim.MachineRef.Name,
		Since:   in.now(),
	}
	if network := in.claim.Network; network != nil { // the system may answer to them
		ledger.Record.Quarantine.Addresses = slices.Clone(network.Addresses)
	}
	return Decision{
		Step: in.save(ledger, infrav1.ForceReleaseAnnotation), Event: "Warning", Reason: infrav1.ReasonNotFenced,
		Message: "released by force without a confirmed power-off; the host is quarantined until its BMC confirms that it is off",
	}
}

func releaseDangling(in *input) Decision {
	ledger := in.ledger()
	ledger.Claim.State = infrav1.ClaimReleasing
	return Decision{
		Step: in.save(ledger, infrav1.ReleaseDanglingAnnotation), Event: "Warning", Reason: infrav1.ReasonReleasing,
		Message: fmt.Sprintf("IngotMachine %s no longer exists and a person released its claim; Ingot now fences and cleans the host", in.claim.MachineRef.Name),
	}
}

func dropCommitted(in *input) Decision {
	ledger := in.ledger()
	ledger.Order = nil
	return Decision{Step: in.save(ledger), Reason: infrav1.ReasonProvisioned, Message: "the install is committed; its order is removed"}
}

func dropMisfit(in *input) Decision {
	ledger := in.ledger()
	ledger.Order = nil
	message := fmt.Sprintf("the order to %s no longer holds and the host is off; the order is removed", verb(in.order.Kind))
	again := in.isInspect() && in.idleOtherwise()
	switch {
	case in.foreign():
		message = fmt.Sprintf("the order to %s was cut off by a move to this cluster and the host is off; the work starts again", verb(in.order.Kind))
	case in.misplaced():
		message = fmt.Sprintf("the host was booted to %s on IngotNetwork %s by %s, which its spec no longer names, and is off; the work starts again",
			verb(in.order.Kind), in.order.NetworkName, in.order.BootMACAddress)
	default:
		again = false
	}
	if again { // a person has asked for it, and nothing else says so any more
		in.mint(&ledger, infrav1.OrderInspect, 1)
	}
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonInProgress, Message: message}
}

func giveUpAgent(in *input) Decision {
	ledger := in.ledger()
	reason := infrav1.ReasonNoAgentContact
	message := fmt.Sprintf("no word from the agent for %s (--agent-deadline); Ingot switches the host off and tries again", in.policy.AgentDeadline)
	look := "look at the host's console, at its boot order and at the network between it and the boot server; where its firmware alone takes that long, raise --agent-deadline of the manager"
	if n := in.obs.SilentPeers; n >= enoughSilent && !in.isWipe() { // giving up on wiping is bounded (I7)
		reason = infrav1.ReasonNetworkSilent
		message = fmt.Sprintf("no word from any agent on IngotNetwork %s for %s, for which %d other hosts wait too; Ingot switches the host off and tries again, and does not hold it against the host",
			in.host.Spec.NetworkRef.Name, in.policy.AgentDeadline, n)
		look = "look at the boot servers (ingot-boot), and at the network between them and the hosts"
	}
	ledger.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: reason, Message: message, At: in.now()}
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: reason, Message: message + "; " + look}
}

// giveUpLive ends the wait for a live system that does not ask for its data. The agent
// has done its part on this host, so that it is not the host's failure.
func giveUpLive(in *input) Decision {
	return in.endLive(fmt.Sprintf("was started, and nobody has asked for its bootstrap data for %s", in.policy.AgentDeadline))
}

// noteLiveStopped writes down what a host tells that went off after its live system had
// been started.
func noteLiveStopped(in *input) Decision {
	return in.endLive("was started, and the host went off before anybody had asked for its bootstrap data")
}

func (in *input) endLive(what string) Decision {
	ledger := in.ledger()
	result := LiveSilent(what, in.obs.Now)
	ledger.Order.Result = &result
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: result.Reason, Message: result.Message}
}

// LiveSilent is the end of an order whose live system was started and came to nothing;
// what says how it is known.
func LiveSilent(what string, now time.Time) infrav1.OrderResult {
	return infrav1.OrderResult{
		Outcome: infrav1.OrderFailed, Reason: infrav1.ReasonLiveSystemSilent, At: metav1.Time{Time: now},
		Message: "the live system " + what + "; look at the host's console: does the system know the NIC, does it get an address, does its command line lead it to the data; and is the data in the Machine's bootstrap Secret?",
	}
}

func concludeInspection(in *input) Decision {
	ledger := in.ledger()
	record := ledger.recorded()
	record.InspectedAt = in.order.Result.At
	record.Failures = 0
	record.RefusedImages = nil // disks may have been changed
	ledger.Order = nil
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonInspected, Message: "the hardware is inspected and the host is off"}
}

// concludeWipe keeps the count of failures: a host that installs badly and wipes
// well is still a host that installs badly.
func concludeWipe(in *input) Decision {
	ledger := in.ledger()
	ledger.keepQuarantine(ledger.Claim)
	ledger.Claim = nil
	record := ledger.recorded()
	record.Preparation = nil // as in endClaim
	record.SanitizedAt = in.order.Result.At
	record.CleanedDisks, record.UncleanedStorage = in.order.Result.CleanedDisks, in.obs.StorageWithoutDriver
	record.LastClusterName, record.LastInstanceID, record.EarlierInstanceIDs = "", "", nil
	record.CleaningDue = ""
	ledger.Order = nil
	ledger.Commands = withoutApprovedInstances(ledger.Commands)
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonCleaned, Message: "the agent confirmed the cleaning and the host is off; " + ledger.standing()}
}

// failure says why the order ended badly.
func (in *input) failure() (reason, message string) {
	switch {
	case in.revoked():
		return infrav1.ReasonAgentKeyConflict, "two agents came with the same token; both were refused and the host was switched off"
	case in.order.Result != nil && in.order.Result.Outcome == infrav1.OrderFailed:
		return in.order.Result.Reason, in.order.Result.Message
	case in.order.Result != nil:
		return infrav1.ReasonInstallFailed, "the agent reported success but the install was never committed"
	case in.contacted():
		return infrav1.ReasonPoweredOff, "the host went off before the agent had finished"
	default:
		return infrav1.ReasonNoAgentContact, fmt.Sprintf("the host did not come on within %s of its boot", in.policy.AgentDeadline)
	}
}

func (in *input) countFailure(ledger *Ledger) {
	if !in.isWipe() {
		ledger.recorded().Failures++
	}
}

func retryOrder(in *input) Decision {
	_, message := in.failure()
	ledger := in.ledger()
	in.countFailure(&ledger)
	in.mint(&ledger, in.order.Kind, in.order.Attempt+1)
	return Decision{
		Step: in.save(ledger), Event: "Warning", Reason: failedReason(in.order.Kind),
		Message: inventory.ClipMessage(fmt.Sprintf("attempt %d to %s failed: %s; Ingot tries again", in.order.Attempt, verb(in.order.Kind), message)),
	}
}

// retrySilent does not count the failure: not the host is to blame.
func retrySilent(in *input) Decision {
	ledger := in.ledger()
	in.mint(&ledger, in.order.Kind, in.order.Attempt+1)
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: workReason(in.order.Kind),
		Message: "Ingot tries again to " + verb(in.order.Kind) + "; nothing was heard from any host of the network"}
}

// retryImage does not count the failure: the host is as good as before.
func retryImage(in *input) Decision {
	ledger := in.ledger()
	in.mint(&ledger, in.order.Kind, in.order.Attempt+1)
	return Decision{
		Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonProvisioning,
		Message: "Ingot tries again with what the machine names",
	}
}

func quarantineFailed(in *input) Decision {
	reason, message := in.failure()
	ledger := in.ledger()
	in.countFailure(&ledger)
	ledger.endClaim()
	ledger.Order = nil
	text := inventory.ClipMessage(fmt.Sprintf("%s failed %d times in a row, the last time with %s: %s",
		verb(in.order.Kind), in.attempts(), reason, message))
	ledger.Record.Quarantine = &infrav1.Quarantine{Reason: quarantineReason(in.order.Kind), Message: text, Since: in.now()}
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: infrav1.ReasonQuarantined,
		Message: text + "; the host is off and out of service until a person repairs it and sets the annotation " + inventory.CommandText(infrav1.ClearQuarantineAnnotation)}
}

// attempts is how often the work of the order has failed, this time included.
func (in *input) attempts() int32 {
	if in.isWipe() {
		return in.order.Attempt
	}
	return in.failures() + 1
}

func liftNotFenced(in *input) Decision {
	ledger := in.ledger()
	ledger.Record.Quarantine = nil
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonFenced, Message: "the BMC confirmed that the host is off; the quarantine of the forced release is lifted"}
}

func clearQuarantine(in *input) Decision {
	ledger := in.ledger()
	ledger.Record.Quarantine = nil
	ledger.Record.Failures = 0
	return Decision{Step: in.save(ledger, infrav1.ClearQuarantineAnnotation), Event: "Normal", Reason: infrav1.ReasonInProgress,
		Message: "a person cleared the quarantine; the host goes back to work"}
}

func fence(in *input) Decision {
	ledger := in.ledger()
	ledger.Claim.FencedAt = in.now()
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonFenced, Message: "the BMC confirmed that the host is off"}
}

func releaseUncleaned(in *input) Decision {
	ledger := in.ledger()
	ledger.endClaim()
	message := "nothing was ever written for this claim; " + ledger.standing()
	if in.claim.Attempt > 0 {
		message = fmt.Sprintf("released without cleaning, as asked; the host now serves cluster %s only, until it is cleaned; %s", in.claim.ClusterName, ledger.standing())
	}
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonNotCleaned, Message: message}
}

func forgetFailures(in *input) Decision {
	ledger := in.ledger()
	ledger.Record.Failures = 0
	return Decision{Step: in.save(ledger), Reason: infrav1.ReasonProvisioned, Message: "installed; earlier failures are forgotten"}
}

func refuseReboot(in *input) Decision {
	return Decision{Step: in.save(in.ledger(), infrav1.RebootAnnotation), Event: "Warning", Reason: infrav1.ReasonNotApplicable, Refuses: true,
		Message: "the reboot asked for is dropped: only a provisioned host that is on is rebooted"}
}

func spendApproval(in *input) Decision {
	return Decision{Step: in.save(in.ledger(), infrav1.ApproveAnnotation), Event: "Normal", Reason: infrav1.ReasonInProgress,
		Message: "the approval is used up: the host is off and Ingot's"}
}

// wanted is the work that the ledger asks for: the start ladder comes to it only
// when some is.
func (in *input) wanted() infrav1.OrderKind {
	switch {
	case in.provisioning():
		return infrav1.OrderInstall
	case in.releasing():
		return infrav1.OrderWipe
	case in.inspectAsked(), in.factsMissing(): // first: disks may have been taken out, for which a wipe would wait
		return infrav1.OrderInspect
	case in.cleaningDue():
		return infrav1.OrderWipe
	default:
		return infrav1.OrderInspect
	}
}

func mintOrder(in *input) Decision {
	kind := in.wanted()
	if awaited := in.obs.FactsAwaitedUntil; in.free() && in.factsMissing() && in.obs.Now.Before(awaited) {
		return Decision{Step: Wait{Until: awaited}, Reason: infrav1.ReasonWaiting,
			Message: fmt.Sprintf("The IngotHardware of the host does not exist. Ingot waits for it until %s, and inspects the host then.", inventory.FormatTime(awaited))}
	}
	ledger := in.ledger()
	in.mint(&ledger, kind, 1)
	var spent []string
	if kind == infrav1.OrderInspect && in.inspectAsked() {
		spent = append(spent, infrav1.InspectAnnotation)
		ledger.tryPreparationAgain()
	}
	return Decision{Step: in.save(ledger, spent...), Event: "Normal", Reason: workReason(kind),
		Message: fmt.Sprintf("the order to %s is written; Ingot boots the agent next", verb(kind))}
}

// mint writes a new order, with the attempt given or, for an install, the next of
// the claim. The claim counts its installs before any of them can
// touch a disk, so that a claim with attempt 0 is known to have left no trace.
func (in *input) mint(ledger *Ledger, kind infrav1.OrderKind, attempt int32) {
	if kind == infrav1.OrderInstall {
		ledger.forgetCleaning()
		ledger.Claim.Attempt++
		attempt = ledger.Claim.Attempt
	}
	ledger.Order = &infrav1.HostOrder{
		Kind: kind, ID: in.obs.NewID, Attempt: attempt, CreatedAt: in.now(), HostUID: string(in.host.UID),
		NetworkName: in.host.Spec.NetworkRef.Name, BootMACAddress: in.host.Spec.BootMACAddress,
	}
}
