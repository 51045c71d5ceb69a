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

// This file has the rules' changes of the ledger. Its other writers are the machine controller
// (the claim and its state Releasing) and the agent's session (key, result, commit point).

func (in *input) ledger() Ledger { return LedgerOf(in.host) }

func (in *input) now() metav1.Time { return metav1.Time{Time: in.obs.Now} }

func (in *input) failures() int32 {
	if in.record == nil {
		return 0
	}
	return in.record.Failures
}

// recorded returns the record, and creates it if there is none.
func (l *Ledger) recorded() *infrav1.HostRecord {
	if l.Record == nil {
		l.Record = &infrav1.HostRecord{}
	}
	return l.Record
}

// endClaim turns the claim into a record of what it leaves behind: a quarantine, and either the
// cleaning that is due or the cluster whose data stays on the disks (I12). A claim without an
// install order leaves nothing on the disks.
func (l *Ledger) endClaim() {
	claim := l.Claim
	l.Claim = nil
	record := l.recorded()
	record.Preparation = nil // the machine may have changed the settings
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

// maxEarlierInstances is the limit of the schema.
const maxEarlierInstances = 32

// rememberInstance makes the instance the last one of the host: its marker may be on a disk
// (I8). It keeps the earlier instances until all disks are wiped, because the new one may have
// written no disk, or only one of them.
func rememberInstance(record *infrav1.HostRecord, id string) {
	earlier := record.EarlierInstanceIDs
	if last := record.LastInstanceID; last != "" && !slices.Contains(earlier, last) {
		earlier = append(earlier, last)
	}
	earlier = slices.DeleteFunc(earlier, func(other string) bool { return other == id })
	record.EarlierInstanceIDs = earlier[max(0, len(earlier)-maxEarlierInstances):]
	record.LastInstanceID = id
}

// ReleasedInstances returns the instances whose markers do not protect a disk of the host (I8):
// its earlier ones, and those that an operator approved.
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

// forgetCleaning drops the result of the last cleaning, because an install may write the disks.
func (l *Ledger) forgetCleaning() {
	if l.Record != nil {
		l.Record.SanitizedTime, l.Record.CleanedDisks, l.Record.UncleanedStorage = metav1.Time{}, nil, nil
	}
}

// save writes the ledger and removes annotations. It remembers their commands, except those
// with a time in the future, which would make all others look outdated.
func (in *input) save(ledger Ledger, annotations ...string) SaveLedger {
	for _, name := range annotations {
		if c, pending := inventory.PendingCommand(in.host, name); pending && !c.IsInFuture(in.obs.Now) {
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
		Reason:    infrav1.QuarantineNotFenced,
		Message:   "The host was released by force and may still run the system of IngotMachine " + in.claim.MachineRef.Name + ".",
		StartTime: in.now(),
	}
	if network := in.claim.Network; network != nil { // the system may answer to them
		ledger.Record.Quarantine.Addresses = slices.Clone(network.Addresses)
	}
	return Decision{
		Step: in.save(ledger, infrav1.ForceReleaseAnnotation), Event: "Warning", Reason: infrav1.ReasonNotFenced,
		Message: "The host was released by force. It stays out of service until the BMC confirms its power-off.",
	}
}

func releaseDangling(in *input) Decision {
	ledger := in.ledger()
	ledger.Claim.State = infrav1.ClaimReleasing
	return Decision{
		Step: in.save(ledger, infrav1.ReleaseAnnotation), Event: "Warning", Reason: infrav1.ReasonReleasing,
		Message: fmt.Sprintf("An operator released the host of the missing IngotMachine %s. Ingot powers it off and cleans it.", in.claim.MachineRef.Name),
	}
}

func dropCommitted(in *input) Decision {
	ledger := in.ledger()
	ledger.Order = nil
	return Decision{Step: in.save(ledger), Reason: infrav1.ReasonProvisioned, Message: "The host is installed."}
}

func dropMisfit(in *input) Decision {
	ledger := in.ledger()
	ledger.Order = nil
	message := fmt.Sprintf("The %s is no longer needed. The host is off.", in.text().noun)
	again := in.isInspect() && in.idleExceptOrder()
	switch {
	case in.foreign():
		message = fmt.Sprintf("A move to this management cluster interrupted the %s. Ingot starts it again.", in.text().noun)
	case in.misplaced():
		message = fmt.Sprintf("The network or boot NIC in the spec changed during the %s. Ingot starts it again.", in.text().noun)
	default:
		again = false
	}
	if again { // an operator requested it, and nothing else records that
		in.newOrder(&ledger, infrav1.OrderInspect, 1)
	}
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonInProgress, Message: message}
}

func giveUpAgent(in *input) Decision {
	ledger := in.ledger()
	reason := infrav1.ReasonNoAgentContact
	message := fmt.Sprintf("The agent has been silent for %s (--agent-deadline).", in.policy.AgentDeadline)
	told := message + " Ingot powers the host off and retries. Check its console, boot order and network, or raise --agent-deadline."
	if n := in.obs.SilentPeers; n >= enoughSilent && !in.isWipe() { // giving up on wiping is bounded (I7)
		reason = infrav1.ReasonNetworkUnresponsive
		network, silent := in.host.Spec.NetworkRef.Name, fmt.Sprintf(" have been silent for %s, on %d other hosts too.", in.policy.AgentDeadline, n)
		message = "All agents on IngotNetwork " + network + silent
		told = inventory.WithDetail("All agents on IngotNetwork ", network, silent+" Ingot powers the host off and retries. Check the boot servers (ingot-boot).")
	}
	ledger.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderFailed, Reason: reason, Message: message, CompletionTime: in.now()}
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: reason, Message: told}
}

// giveUpLive ends the wait for a live system that does not fetch its data. Since the agent
// succeeded, the failure does not count against the host.
func giveUpLive(in *input) Decision {
	return in.endLive(fmt.Sprintf("fetched no bootstrap data for %s", in.policy.AgentDeadline))
}

// noteLiveStopped ends the order of a host that went off after the start of its live system.
func noteLiveStopped(in *input) Decision {
	return in.endLive("powered off before it fetched its bootstrap data")
}

func (in *input) endLive(what string) Decision {
	ledger := in.ledger()
	result := LiveSystemFailed(what, in.obs.Now)
	ledger.Order.Result = &result
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: result.Reason, Message: result.Message}
}

// LiveSystemFailed returns the result of an order whose live system was started and did not work.
// what completes the sentence "The live system ...".
func LiveSystemFailed(what string, now time.Time) infrav1.OrderResult {
	return infrav1.OrderResult{
		Outcome: infrav1.OrderFailed, Reason: infrav1.ReasonLiveSystemUnresponsive, CompletionTime: metav1.Time{Time: now},
		Message: "The live system " + what + ". Check on the console its NIC, address and kernel command line, and the bootstrap Secret of the Machine.",
	}
}

func concludeInspection(in *input) Decision {
	ledger := in.ledger()
	record := ledger.recorded()
	record.InspectedTime = in.order.Result.CompletionTime
	record.Failures = 0
	record.RefusedImages = nil // the disks may be other ones
	ledger.Order = nil
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonInspected, Message: "The inspection is complete and the host is off."}
}

// concludeWipe keeps the count of failed installs, because a cleaning does not show that
// installs work.
func concludeWipe(in *input) Decision {
	ledger := in.ledger()
	ledger.keepQuarantine(ledger.Claim)
	ledger.Claim = nil
	record := ledger.recorded()
	record.Preparation = nil // as in endClaim
	record.SanitizedTime = in.order.Result.CompletionTime
	record.CleanedDisks, record.UncleanedStorage = in.order.Result.CleanedDisks, in.obs.StorageWithoutDriver
	record.LastClusterName, record.LastInstanceID, record.EarlierInstanceIDs = "", "", nil
	record.CleaningDue = ""
	ledger.Order = nil
	ledger.Commands = withoutApprovedInstances(ledger.Commands)
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonCleaned, Message: ledger.withStanding("The disks are clean and the host is off.")}
}

// failure returns why the order failed.
func (in *input) failure() (reason, message string) {
	switch {
	case in.revoked():
		return infrav1.ReasonAgentKeyConflict, "Two agents used the same token. Ingot refused both"
	case in.order.Result != nil && in.order.Result.Outcome == infrav1.OrderFailed:
		return in.order.Result.Reason, in.order.Result.Message
	case in.order.Result != nil:
		return infrav1.ReasonInstallFailed, "the agent reported success, but the install was not recorded"
	case in.contacted():
		return infrav1.ReasonPoweredOff, "the host went off before the agent had finished"
	default:
		return infrav1.ReasonNoAgentContact, fmt.Sprintf("the host did not power on within %s", in.policy.AgentDeadline)
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
	in.newOrder(&ledger, in.order.Kind, in.order.Attempt+1)
	return Decision{
		Step: in.save(ledger), Event: "Warning", Reason: in.text().failed, Detail: message,
		Message: inventory.WithDetail(fmt.Sprintf("Attempt %d to %s the host failed: ", in.order.Attempt, in.text().verb), message, ". Ingot retries."),
	}
}

// retrySilent does not count the failure against the host.
func retrySilent(in *input) Decision {
	ledger := in.ledger()
	in.newOrder(&ledger, in.order.Kind, in.order.Attempt+1)
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: in.text().working,
		Message: "Ingot retries the " + in.text().noun + ". The network failed, not the host."}
}

// retryImage does not count the failure against the host.
func retryImage(in *input) Decision {
	ledger := in.ledger()
	in.newOrder(&ledger, in.order.Kind, in.order.Attempt+1)
	return Decision{
		Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonProvisioning,
		Message: "Ingot retries the install with the image of the machine.",
	}
}

func quarantineFailed(in *input) Decision {
	reason, message := in.failure()
	ledger := in.ledger()
	in.countFailure(&ledger)
	ledger.endClaim()
	ledger.Order = nil
	text := inventory.WithDetail(fmt.Sprintf("The %s failed %d times, last with %s: ", in.text().noun, in.attempts(), reason), message, ".")
	ledger.Record.Quarantine = &infrav1.Quarantine{Reason: in.text().quarantine, Message: text, StartTime: in.now()}
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: infrav1.ReasonQuarantined, Detail: message,
		Message: inventory.WithDetail("Out of service: ", text, ". Repair the host, then "+annotate(infrav1.ClearQuarantineAnnotation)+".")}
}

// attempts is how often the work of the order has failed, including this time.
func (in *input) attempts() int32 {
	if in.isWipe() {
		return in.order.Attempt
	}
	return in.failures() + 1
}

func liftNotFenced(in *input) Decision {
	ledger := in.ledger()
	ledger.Record.Quarantine = nil
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonFenced, Message: "The BMC confirmed the power-off. The quarantine after the forced release ends."}
}

func clearQuarantine(in *input) Decision {
	ledger := in.ledger()
	ledger.Record.Quarantine = nil
	ledger.Record.Failures = 0
	return Decision{Step: in.save(ledger, infrav1.ClearQuarantineAnnotation), Event: "Normal", Reason: infrav1.ReasonInProgress,
		Message: "An operator ended the quarantine. The host returns to service."}
}

func fence(in *input) Decision {
	ledger := in.ledger()
	ledger.Claim.FencedTime = in.now()
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonFenced, Message: "The BMC confirmed the power-off of the release."}
}

func releaseUncleaned(in *input) Decision {
	ledger := in.ledger()
	ledger.endClaim()
	message := "The machine left nothing to clean."
	if in.claim.Attempt > 0 {
		message = fmt.Sprintf("Released without cleaning. Until it is cleaned, only cluster %s can use it.", in.claim.ClusterName)
	}
	return Decision{Step: in.save(ledger), Event: "Normal", Reason: infrav1.ReasonNotCleaned, Message: ledger.withStanding(message)}
}

func forgetFailures(in *input) Decision {
	ledger := in.ledger()
	ledger.Record.Failures = 0
	return Decision{Step: in.save(ledger), Reason: infrav1.ReasonProvisioned, Message: "The host is installed. Ingot resets its count of failures."}
}

func refuseReboot(in *input) Decision {
	return Decision{Step: in.save(in.ledger(), infrav1.RebootAnnotation), Event: "Warning", Reason: infrav1.ReasonNotApplicable, RefusesCommands: true,
		Message: "Ingot ignored the reboot command: only an installed host that is on can reboot."}
}

func spendApproval(in *input) Decision {
	return Decision{Step: in.save(in.ledger(), infrav1.ApproveAnnotation), Event: "Normal", Reason: infrav1.ReasonInProgress,
		Message: "The approved takeover is complete."}
}

// wanted returns the work that the ledger requires.
func (in *input) wanted() infrav1.OrderKind {
	switch {
	case in.provisioning():
		return infrav1.OrderInstall
	case in.releasing():
		return infrav1.OrderClean
	case in.inspectAsked(), in.factsMissing(): // first: a cleaning would wait for disks that were removed
		return infrav1.OrderInspect
	case in.cleaningDue():
		return infrav1.OrderClean
	default:
		return infrav1.OrderInspect
	}
}

func createOrder(in *input) Decision {
	kind := in.wanted()
	if awaited := in.obs.FactsAwaitedUntil; in.free() && in.factsMissing() && in.obs.Now.Before(awaited) {
		return Decision{Step: Wait{Until: awaited}, Reason: infrav1.ReasonWaiting,
			Message: fmt.Sprintf("The IngotHardware of the host does not exist. Ingot waits for it until %s, then inspects the host.", inventory.FormatTime(awaited))}
	}
	ledger := in.ledger()
	in.newOrder(&ledger, kind, 1)
	var spent []string
	if kind == infrav1.OrderInspect && in.inspectAsked() {
		spent = append(spent, infrav1.InspectAnnotation)
		ledger.tryPreparationAgain()
	}
	return Decision{Step: in.save(ledger, spent...), Event: "Normal", Reason: orderTexts[kind].working,
		Message: fmt.Sprintf("Ingot boots the agent to %s the host next.", orderTexts[kind].verb)}
}

// newOrder writes an order with the given attempt or, for an install, the next one of the
// claim. The claim counts an install before it can write a disk: attempt 0 leaves no trace.
func (in *input) newOrder(ledger *Ledger, kind infrav1.OrderKind, attempt int32) {
	if kind == infrav1.OrderInstall {
		ledger.forgetCleaning()
		ledger.Claim.Attempt++
		attempt = ledger.Claim.Attempt
	}
	ledger.Order = &infrav1.HostOrder{
		Kind: kind, ID: in.obs.NewID, Attempt: attempt, CreationTime: in.now(), HostUID: string(in.host.UID),
		NetworkName: in.host.Spec.NetworkRef.Name, BootMACAddress: in.host.Spec.BootMACAddress,
	}
}
