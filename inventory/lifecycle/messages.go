// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file is what people are told when nothing is done: why, what Ingot does
// next, and what they can do.

func sayDeletingClaimed(in *input) Decision {
	return warn(infrav1.ReasonDeleting, fmt.Sprintf("the host is claimed by IngotMachine %s and is kept until that is gone and the disks are cleaned; delete its Machine, or set the annotation %s to let the object go at once",
		in.claim.MachineRef.Name, inventory.CommandText(infrav1.ForceReleaseAnnotation)))
}

func sayDeletingQuarantined(in *input) Decision {
	why := "its installs failed"
	if in.cleaningDue() {
		why = "the data of its last machine may still be on the disks"
	}
	return warn(infrav1.ReasonDeleting, fmt.Sprintf("Deletion waits: %s. See to that, then annotate the IngotHost with %s to let it go.", why, inventory.CommandText(infrav1.ClearQuarantineAnnotation)))
}

func sayDuplicate(in *input) Decision {
	return warn(infrav1.ReasonDuplicate, fmt.Sprintf("this is the same server as %s (same BMC system, MAC address, or serial number and UUID); neither is switched, claimed or booted until one of the two objects is corrected or deleted", in.obs.DuplicateOf))
}

func sayUnmanaged(*input) Decision {
	return idle(infrav1.ReasonUnmanaged, "the host has no BMC in spec.bmc: it is listed, and never switched, booted or claimed; give spec.bmc to manage it")
}

func sayDangling(in *input) Decision {
	return warn(infrav1.ReasonClaimDangling, fmt.Sprintf("IngotMachine %s, which the claim names, does not exist, or means another host or instance; Ingot leaves the host as it is until such a machine appears; to have the host fenced and cleaned, set the annotation %s",
		in.claim.MachineRef.Name, inventory.CommandText(infrav1.ReleaseDanglingAnnotation)))
}

// remedies say what a person can do about each problem with a BMC.
func (in *input) remedy() string {
	switch in.obs.BMC {
	case BMCUnreachable:
		return "check its address in spec.bmc.address, its cable and the management network"
	case BMCTimeout:
		return "it may be overloaded or hanging; if it stays so, reset the BMC"
	case BMCRateLimited:
		return "it answers 429 because it is asked too often, by all its users together: raise the limit in its settings, or slow down the other tools that ask it"
	case BMCBusy:
		return "it refuses work for now; if it stays so, close other sessions to it or reset it"
	case BMCSlow:
		return "if the number does not grow, close other sessions to it or reset it"
	case BMCUnauthorized:
		return fmt.Sprintf("correct username and password in Secret %s", in.host.Spec.BMC.CredentialsRef.Name)
	case BMCPasswordChange:
		return fmt.Sprintf("Annotate the host with %s and Ingot sets one, or change it at the BMC and in Secret %s.",
			infrav1.RotateCredentialsAnnotation, in.host.Spec.BMC.CredentialsRef.Name)
	case BMCCertificateInvalid:
		return "name the CA that signed its certificate in spec.bmc.caBundleRef, or compare the fingerprint presented with the BMC's own and set spec.bmc.certificateFingerprint to it"
	case BMCCertificateChanged:
		if in.trustsFirstUse() {
			return "if it was replaced on purpose, set spec.bmc.certificateFingerprint to the fingerprint presented in place of spec.bmc.trustOnFirstUse; if nobody replaced it, somebody may stand between Ingot and the BMC"
		}
		return "if it was replaced on purpose, set spec.bmc.certificateFingerprint to the fingerprint presented; if nobody replaced it, somebody may stand between Ingot and the BMC"
	case BMCCredentialsMissing:
		return fmt.Sprintf("create Secret %s with the keys %s and %s", in.host.Spec.BMC.CredentialsRef.Name, infrav1.SecretKeyUsername, infrav1.SecretKeyPassword) + in.orForce()
	case BMCCAMissing:
		return fmt.Sprintf("create the object that spec.bmc.caBundleRef names, with PEM certificates under the key %s", infrav1.CAKey) + in.orForce()
	case BMCUnsupported:
		return "check that spec.bmc.address names the right System and that its firmware is up to date"
	case BMCDisobeys:
		return "look at the server, its power supply and the BMC's own log; if nothing is wrong there, reset the BMC"
	default:
		return "if it stays so, look at the BMC's own log or reset it"
	}
}

// orForce names the way out for a host whose deletion waits for its BMC.
func (in *input) orForce() string {
	if !in.obs.Deleting && !in.releasing() {
		return ""
	}
	return ", or annotate the IngotHost with " + inventory.CommandText(infrav1.ForceReleaseAnnotation) + " to let it go without the BMC"
}

// trustsFirstUse: the pin of the BMC's certificate was taken at its first use.
func (in *input) trustsFirstUse() bool {
	return in.host.Spec.BMC != nil && in.host.Spec.BMC.TrustOnFirstUse != nil && *in.host.Spec.BMC.TrustOnFirstUse
}

func bmcReason(problem BMCProblem) string {
	switch problem {
	case BMCOK:
		return infrav1.ReasonBMCAnswers
	case BMCUnreachable:
		return infrav1.ReasonBMCUnreachable
	case BMCTimeout:
		return infrav1.ReasonBMCTimeout
	case BMCBusy, BMCSlow:
		return infrav1.ReasonBMCBusy
	case BMCRateLimited:
		return infrav1.ReasonBMCRateLimited
	case BMCUnauthorized:
		return infrav1.ReasonCredentialsRejected
	case BMCPasswordChange:
		return infrav1.ReasonPasswordChangeRequired
	case BMCCertificateInvalid:
		return infrav1.ReasonCertificateInvalid
	case BMCCertificateChanged:
		return infrav1.ReasonCertificateChanged
	case BMCCredentialsMissing:
		return infrav1.ReasonCredentialsMissing
	case BMCCAMissing:
		return infrav1.ReasonCAMissing
	case BMCUnsupported:
		return infrav1.ReasonBMCUnsupported
	case BMCAddressNotAllowed:
		return infrav1.ReasonBMCAddressNotAllowed
	case BMCDisobeys:
		return infrav1.ReasonBMCDisobeys
	case BMCNamespaceTerminating:
		return infrav1.ReasonNamespaceTerminating
	default:
		return infrav1.ReasonBMCError
	}
}

func (in *input) bmcMessage() string {
	if in.obs.BMC == BMCPasswordChange {
		return "The BMC wants its password changed first. " + in.remedy()
	}
	if in.obs.BMC == BMCNamespaceTerminating {
		return "The namespace is being deleted. The BMC's certificate cannot be recorded, so Ingot does not use the BMC. To let the host go, annotate it with " + inventory.CommandText(infrav1.ForceReleaseAnnotation) + "."
	}
	what := in.obs.BMCMessage
	if what == "" {
		what = string(in.obs.BMC)
	}
	if in.obs.BMC == BMCAddressNotAllowed {
		return what + ". Ingot does not contact this BMC; a server in use keeps running. Correct the address, or add its network to --bmc-sources."
	}
	return fmt.Sprintf("the BMC cannot be used: %s; %s; %s", what, in.tries(), in.remedy())
}

// tries says when Ingot asks the BMC again, and, once it has failed often, since when
// and how often: in classes, so that a dead BMC does not cost a write a try.
func (in *input) tries() string {
	correction := "and at once when spec.bmc or its Secret changes"
	least := 0
	for _, class := range []int{3, 10, 100, 1000} {
		if in.obs.Failures >= class {
			least = class
		}
	}
	within, locked := "5 minutes", ""
	if in.obs.BMC == BMCUnauthorized { // a BMC that locks accounts counts each try
		correction += ", or the annotation " + inventory.CommandText(infrav1.RetryBMCAnnotation)
		within, locked = "75 minutes", ", in case that the BMC has locked the account for a while"
	}
	if in.obs.BMC == BMCSlow {
		return "Ingot asks for the rest in a moment"
	}
	if least == 0 || in.obs.FailingSince.IsZero() {
		return fmt.Sprintf("Ingot tries again at growing intervals of at most %s%s, %s", within, locked, correction)
	}
	return fmt.Sprintf("failing since %s, %d times in a row or more, so that Ingot leaves it alone between tries%s; it tries again within %s, %s",
		inventory.FormatTime(in.obs.FailingSince), least, locked, within, correction)
}

// FailingSince is since when a host's status says that its BMC cannot be used; zero: it
// does not. It outlasts the manager's memory.
func FailingSince(host *infrav1.IngotHost) time.Time {
	var since time.Time
	for _, name := range []string{infrav1.HostBMCReachableCondition, infrav1.HostCredentialsValidCondition} {
		c := meta.FindStatusCondition(host.Status.Conditions, name)
		if c != nil && c.Status == metav1.ConditionFalse && (since.IsZero() || c.LastTransitionTime.Time.Before(since)) {
			since = c.LastTransitionTime.Time
		}
	}
	return since
}

func sayBMCProblem(in *input) Decision {
	return in.again(bmcReason(in.obs.BMC), in.bmcMessage())
}

// sayProvisioned names what else would look like a fault of Ingot's: what is in use and
// off is not switched on unasked (I2).
func sayProvisioned(in *input) Decision {
	message := fmt.Sprintf("installed for IngotMachine %s", in.claim.MachineRef.Name)
	switch {
	case in.off() && in.wantedOff():
		message += "; off, as spec.power says"
	case in.off() && in.maintenance():
		message += "; off, and nobody switches it on while spec.maintenance is set"
	case in.off():
		message += "; the server is off, and Ingot does not switch on unasked what is in use: set spec.power to On, or let the remediation of a MachineHealthCheck power-cycle it"
	}
	return idle(infrav1.ReasonProvisioned, message)
}

// sayMaintenance: a claimed host that comes on is switched off again, since what was on it
// must not come back (I7).
func sayMaintenance(in *input) Decision {
	message := "spec.maintenance is set: Ingot does nothing to the host; unset it to put the host back to work"
	if in.claimed() {
		message = "spec.maintenance is set: Ingot starts nothing on the host, and switches it off where it comes on; unset it to put the host back to work, or annotate it with " + clusterv1.PausedAnnotation + " to be left alone"
	}
	if in.obs.Deleting {
		message += "; the object goes once the disks are clean"
	}
	return idle(infrav1.ReasonMaintenance, message)
}

func sayQuarantined(in *input) Decision {
	q := in.record.Quarantine
	return warn(infrav1.ReasonQuarantined, fmt.Sprintf("%s; out of service since %s; repair the host, then set the annotation %s",
		q.Message, inventory.FormatTime(q.Since.Time), inventory.CommandText(infrav1.ClearQuarantineAnnotation)))
}

func sayUnexpectedlyOn(*input) Decision {
	return warn(infrav1.ReasonUnexpectedlyOn, fmt.Sprintf("the server is on and Ingot did not power it on: it may be in use; power it off, or set the annotation %s to let Ingot shut it down and take it over",
		inventory.CommandText(infrav1.ApproveAnnotation)))
}

func waitImage(in *input) Decision {
	result := in.order.Result
	remedy := "correct it at its source, or roll out a template that names another"
	switch result.Reason {
	case agentapi.FailureDiskTooSmall:
		remedy = "roll out a template that asks for a larger disk, by rootDeviceHints or hostSelector.minimum, or that names a smaller image"
	case agentapi.FailureSectorsDiffer:
		remedy = "roll out a template that names an image for the disk's sectors, or whose rootDeviceHints or hostSelector choose a disk with sectors as the image's"
	case agentapi.FailureOldSystem:
		remedy = "roll out a template whose rootDeviceHints choose that disk, or, if its data may go, set spec.cleaning to Metadata and delete the Machine"
	case agentapi.FailureMirrorRefused:
		remedy = "roll out a template whose softwareRAID.members, or rootDeviceHints, choose two disks of a kind"
	}
	if note := RefusalNote(result.Reason); note != "" {
		remedy += "; " + note
	}
	return Decision{
		Step: Wait{Until: in.imageAt()}, Event: "Warning", Reason: infrav1.ReasonInstallFailed,
		Message: inventory.ClipMessage(fmt.Sprintf("attempt %d to install failed with %s: %s; this is not held against the host: it waits, off, and Ingot tries again at %s; %s",
			in.order.Attempt, result.Reason, result.Message, inventory.FormatTime(in.imageAt()), remedy)),
	}
}

func sayPoweredOff(*input) Decision {
	return idle(infrav1.ReasonPoweredOff, "spec.power asks for Off: the host stays off and nothing is started on it; unset spec.power to put it back to work")
}

func sayWrongServer(in *input) Decision {
	remedy := fmt.Sprintf("if its mainboard was replaced, set the annotation %s", inventory.CommandText(infrav1.InspectAnnotation))
	if in.claimed() {
		remedy = "if its mainboard was replaced, delete its Machine, then the claim by the annotation " + inventory.CommandText(infrav1.ForceReleaseAnnotation) + ", and have it inspected"
	}
	return warn(infrav1.ReasonWrongServer, fmt.Sprintf("the BMC manages another server than the one that was inspected here: %s; Ingot switches and boots nothing; correct spec.bmc.address, or, %s",
		in.obs.WrongServer, remedy))
}

func sayMACMissing(in *input) Decision {
	return warn(infrav1.ReasonMACNotFound, fmt.Sprintf("spec.bootMACAddress %s is not among the NICs that the BMC lists (%s); correct it, or spec.bmc.address if this is another server. A card that the BMC lists only once the server was on is found by switching it on by hand; Ingot boots nothing before, and asks the BMC again every few minutes",
		in.host.Spec.BootMACAddress, inventory.ListSome(in.obs.KnownMACs, 8)))
}

func sayNetworkMissing(in *input) Decision {
	if in.obs.NetworkRefused != "" {
		return warn(in.obs.RefusedReason, in.obs.NetworkRefused)
	}
	return warn(infrav1.ReasonNetworkMissing, fmt.Sprintf("IngotNetwork %s does not exist; create it, or correct spec.networkRef; Ingot boots nothing before", in.host.Spec.NetworkRef.Name))
}

func sayAddressProblem(in *input) Decision {
	if reason := in.obs.AddressReason; reason != "" {
		return in.again(reason, "no address could be recorded for the boot NIC: "+in.obs.AddressProblem+"; Ingot tries again")
	}
	return in.again(infrav1.ReasonAddressExhausted, fmt.Sprintf("no address could be recorded for the boot NIC: %s; widen spec.range of IngotNetwork %s or delete hosts that are gone; Ingot tries again", in.obs.AddressProblem, in.host.Spec.NetworkRef.Name))
}

func sayAvailable(*input) Decision {
	return idle(infrav1.ReasonAvailable, "inspected, free and ready to be claimed")
}

// verb is what an order does, for people.
func verb(kind infrav1.OrderKind) string { return strings.ToLower(string(kind)) }

// workReason is the reason of the conditions while an order is worked on.
func workReason(kind infrav1.OrderKind) string {
	switch kind {
	case infrav1.OrderInstall:
		return infrav1.ReasonProvisioning
	case infrav1.OrderWipe:
		return infrav1.ReasonWiping
	default:
		return infrav1.ReasonInspecting
	}
}

// failedReason is the reason when an order has failed.
func failedReason(kind infrav1.OrderKind) string {
	switch kind {
	case infrav1.OrderInstall:
		return infrav1.ReasonInstallFailed
	case infrav1.OrderWipe:
		return infrav1.ReasonWipeFailed
	default:
		return infrav1.ReasonInspectFailed
	}
}

func quarantineReason(kind infrav1.OrderKind) infrav1.QuarantineReason {
	switch kind {
	case infrav1.OrderInstall:
		return infrav1.QuarantineInstallFailed
	case infrav1.OrderWipe:
		return infrav1.QuarantineWipeFailed
	default:
		return infrav1.QuarantineInspectFailed
	}
}
