// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file has the decisions that do nothing. Each message says why, what Ingot does next
// and what the operator can do. inventory.WithDetail keeps messages within inventory.MaxText.

// annotate is the request to annotate the host with a command.
func annotate(name string) string {
	return "annotate the host with " + inventory.CommandText(name)
}

func sayDeletingClaimed(in *input) Decision {
	return warn(infrav1.ReasonDeleting, inventory.WithDetail("Deletion waits for IngotMachine ", in.claim.MachineRef.Name,
		". Delete its Machine, or to skip cleaning "+annotate(infrav1.ForceReleaseAnnotation)+"."))
}

func sayDeletingQuarantined(in *input) Decision {
	why := "its installs failed. Check the server"
	if in.cleaningDue() {
		why = "the last machine's data may still be on the disks. Erase them"
	}
	return warn(infrav1.ReasonDeleting, "Deletion waits: "+why+", then "+annotate(infrav1.ClearQuarantineAnnotation)+".")
}

func sayDuplicate(in *input) Decision {
	return warn(infrav1.ReasonDuplicate, inventory.WithDetail("The host is the same server as ", in.obs.DuplicateOf,
		" (BMC system, MAC address, or serial number and UUID). Ingot uses neither until one of the two is corrected or deleted."))
}

func sayUnmanaged(*input) Decision {
	return idle(infrav1.ReasonUnmanaged, "The host has no BMC, so Ingot only lists it. Set spec.bmc to manage it.")
}

func sayMachineMissing(in *input) Decision {
	return warn(infrav1.ReasonMachineNotFound, inventory.WithDetail("IngotMachine ", in.claim.MachineRef.Name,
		" is missing or uses another host. Ingot waits. To release and clean the host, annotate it with "+inventory.CommandText(infrav1.ReleaseAnnotation)+"."))
}

// bmcTexts has the condition reason of each problem with a BMC, and the start of its message.
var bmcTexts = map[BMCProblem]struct{ reason, news string }{
	BMCOK:                   {infrav1.ReasonBMCResponding, "The BMC answers"},
	BMCUnreachable:          {infrav1.ReasonBMCUnreachable, "Cannot reach the BMC"},
	BMCTimeout:              {infrav1.ReasonBMCTimeout, "The BMC does not answer in time"},
	BMCBusy:                 {infrav1.ReasonBMCBusy, "The BMC is busy"},
	BMCSlow:                 {infrav1.ReasonBMCBusy, "Ingot is still reading the BMC"},
	BMCRateLimited:          {infrav1.ReasonBMCRateLimited, "The BMC limits the rate of requests"},
	BMCUnauthorized:         {infrav1.ReasonCredentialsRejected, "The BMC rejects the password"},
	BMCPasswordChange:       {infrav1.ReasonPasswordChangeRequired, "The BMC requires a new password"},
	BMCCertificateInvalid:   {infrav1.ReasonCertificateInvalid, "BMC certificate not trusted"},
	BMCCertificateChanged:   {infrav1.ReasonCertificateChanged, "BMC certificate changed"},
	BMCCredentialsMissing:   {infrav1.ReasonCredentialsMissing, "No credentials for the BMC"},
	BMCCAMissing:            {infrav1.ReasonCABundleMissing, "No CA for the BMC"},
	BMCUnsupported:          {infrav1.ReasonBMCUnsupported, "The BMC is not supported"},
	BMCAddressNotAllowed:    {infrav1.ReasonBMCAddressNotAllowed, "BMC address not allowed"},
	BMCIgnoresPower:         {infrav1.ReasonPowerActionIgnored, "The BMC ignores power requests"},
	BMCNamespaceTerminating: {infrav1.ReasonNamespaceTerminating, "The namespace is being deleted"},
	BMCError:                {infrav1.ReasonBMCError, "The BMC reports an error"},
}

// bmcText returns the entry of bmcTexts. A problem without one is an error of the BMC.
func bmcText(problem BMCProblem) (reason, news string) {
	text, known := bmcTexts[problem]
	if !known {
		text = bmcTexts[BMCError]
	}
	return text.reason, text.news
}

func bmcReason(problem BMCProblem) string {
	reason, _ := bmcText(problem)
	return reason
}

// bmcRemedy is what Ingot does next about the problem with the BMC, and what the operator can do.
func (in *input) bmcRemedy() string {
	const retries = "Ingot retries within 5 minutes. "
	switch in.obs.BMC {
	case BMCUnreachable:
		return retries + "Check spec.bmc.address, the cable and the management network."
	case BMCTimeout:
		return retries + "If this lasts, reset the BMC: it may be overloaded or hanging."
	case BMCRateLimited:
		return retries + "Raise its limit, or slow down other clients."
	case BMCBusy:
		return retries + "If this lasts, close other sessions or reset it."
	case BMCSlow:
		return "Ingot reads the rest in a moment. If this lasts, close other sessions or reset the BMC."
	case BMCCredentialsMissing:
		return fmt.Sprintf("Create the Secret with the keys %s and %s", infrav1.SecretKeyUsername, infrav1.SecretKeyPassword) + in.orForce()
	case BMCCAMissing:
		return "Create the object of spec.bmc.caBundleRef with the key " + infrav1.CAKey + in.orForce()
	case BMCUnsupported:
		return retries + "Check that spec.bmc.address names the right System, and update its firmware."
	case BMCAddressNotAllowed:
		return "Correct it, or add its network to --bmc-sources. A server in use keeps running."
	case BMCIgnoresPower:
		return retries + "Check the server and its power supply, or reset the BMC."
	default:
		return retries + "If this lasts, check the BMC's log or reset it."
	}
}

// orForce ends a remedy. A host whose deletion or release waits for its BMC may go without.
func (in *input) orForce() string {
	if !in.obs.Deleting && !in.releasing() {
		return "."
	}
	return ", or " + annotate(infrav1.ForceReleaseAnnotation) + "."
}

var (
	// bmcPrefix is how errors of the BMC pool name the BMC.
	bmcPrefix = regexp.MustCompile(`^BMC \S+: `)
	// certificateError matches the text of a bmc.CertificateError with a fingerprint.
	certificateError = regexp.MustCompile(`(?:.*: )?(.*) \(presented: (sha256:[0-9a-f]{64})\)`)
)

// bmcDetail is how the BMC failed, without the address, which spec.bmc.address has.
func (in *input) bmcDetail() string {
	if in.obs.BMCMessage == "" {
		return string(in.obs.BMC)
	}
	return bmcPrefix.ReplaceAllString(in.obs.BMCMessage, "")
}

func (in *input) bmcMessage() string {
	_, news := bmcText(in.obs.BMC)
	switch in.obs.BMC {
	case BMCPasswordChange:
		return inventory.WithDetail(news+". To let Ingot set one, annotate "+inventory.CommandText(infrav1.RotateCredentialsAnnotation)+". Or set one in the BMC and in Secret ",
			in.host.Spec.BMC.CredentialsRef.Name, ".")
	case BMCUnauthorized: // a BMC that locks accounts counts each try, so tries are rare
		return inventory.WithDetail(news+" of Secret ", in.host.Spec.BMC.CredentialsRef.Name,
			". Correct it. Ingot retries within 75 minutes, or annotate "+inventory.CommandText(infrav1.RetryBMCAnnotation)+".")
	case BMCNamespaceTerminating:
		return news + ". Ingot cannot record the BMC certificate or use the BMC. To delete the host, annotate it with " + inventory.CommandText(infrav1.ForceReleaseAnnotation) + "."
	case BMCCertificateInvalid, BMCCertificateChanged:
		return in.certificateMessage(news)
	}
	remedy := ". " + in.bmcRemedy()
	if since := in.obs.FailingSince; !since.IsZero() && len(news)+len(remedy) < inventory.MaxText/2+20 { // else the detail has no room
		news += " since " + inventory.FormatTime(since)
	}
	return inventory.WithDetail(news+": ", in.bmcDetail(), remedy)
}

// certificateMessage always has the whole fingerprint: the operator compares it.
func (in *input) certificateMessage(news string) string {
	detail, presented := in.bmcDetail(), ""
	if found := certificateError.FindStringSubmatch(detail); found != nil {
		detail, presented = found[1], found[2]
	}
	if in.obs.BMC == BMCCertificateInvalid {
		if said, ok := strings.CutPrefix(detail, "it "); ok { // as bmc.CertificateError words it
			news, detail = "BMC certificate ", said
		} else {
			news += ": "
		}
		return inventory.WithDetail(news, detail, strings.TrimRight(": "+presented, ": ")+
			". Set spec.bmc.caBundleRef or, once verified, spec.bmc.certificateFingerprint.")
	}
	if presented != "" {
		detail = presented
	}
	if in.host.Spec.BMC != nil && isSet(in.host.Spec.BMC.TrustOnFirstUse) {
		return inventory.WithDetail(news+": ", detail, ". If you did that, set spec.bmc.certificateFingerprint and drop trustOnFirstUse; else suspect an attack.")
	}
	return inventory.WithDetail(news+": ", detail, ". If you replaced it, set spec.bmc.certificateFingerprint to it; otherwise suspect an attack.")
}

// FailingSince is when the BMC stopped being usable, as the conditions of the host show.
// Unlike the manager's memory it survives a restart. Zero: the BMC is usable.
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
	decision := in.retry(bmcReason(in.obs.BMC), in.bmcMessage())
	decision.Detail = in.obs.BMCMessage
	return decision
}

// sayProvisioned explains why a host that is in use and off stays off: Ingot does not power
// it on without a request (I2).
func sayProvisioned(in *input) Decision {
	message := fmt.Sprintf("Installed for IngotMachine %s.", in.claim.MachineRef.Name)
	switch {
	case in.off() && in.wantedOff():
		message += " Powered off, as spec.power requests."
	case in.off() && in.maintenance():
		message += " Powered off, and stays off while spec.maintenance is set."
	case in.off():
		message += " Off. Ingot does not power it on by itself. Set spec.power to On, or let a MachineHealthCheck remediate it."
	}
	return idle(infrav1.ReasonProvisioned, message)
}

// sayMaintenance: Ingot powers a claimed host off again if it comes on, since the system that
// ran on it must not come back (I7).
func sayMaintenance(in *input) Decision {
	const unset = " Unset spec.maintenance to return it to service"
	message := "The host is in maintenance. Ingot does nothing to it." + unset
	if in.claimed() {
		message = "The host is in maintenance. Ingot powers it off if it comes on." + unset
	}
	switch {
	case in.obs.Deleting:
		message += ". The deletion ends once the disks are clean."
	case in.claimed():
		message += ", or annotate it with " + clusterv1.PausedAnnotation + " to prevent that."
	default:
		message += "."
	}
	return idle(infrav1.ReasonMaintenance, message)
}

func sayQuarantined(in *input) Decision {
	return warn(infrav1.ReasonQuarantined, inventory.WithDetail("Out of service: ", in.record.Quarantine.Message,
		". Repair the host, then "+annotate(infrav1.ClearQuarantineAnnotation)+"."))
}

func sayUnexpectedlyOn(*input) Decision {
	return warn(infrav1.ReasonPoweredOnUnexpectedly, "The server is on, but Ingot did not power it on. Power it off, or to let Ingot shut it down "+
		annotate(infrav1.ApproveAnnotation)+".")
}

// failedInstallRemedy is what the operator can do about an install that failed for a reason
// that is not the host's.
func failedInstallRemedy(reason string) string {
	const another = "Delete the Machine to try another host, or use a template "
	switch reason {
	case agentapi.FailureDiskTooSmall:
		return another + "with a larger disk or a smaller image."
	case agentapi.FailureSectorsDiffer:
		return another + "whose image and disk have equal sectors."
	case agentapi.FailureOldSystem:
		return "Choose that disk, or to drop its data set spec.cleaning to Metadata and delete the Machine."
	case agentapi.FailureMirrorRefused:
		return another + "that chooses two disks of a kind."
	case agentapi.FailureLiveRefused:
		return another + "with another image."
	default:
		return "Correct the image, or use a template with another one."
	}
}

func waitImage(in *input) Decision {
	result := in.order.Result
	return Decision{
		Step: Wait{Until: in.imageRetryAt()}, Event: "Warning", Reason: infrav1.ReasonInstallFailed, Detail: result.Message,
		Message: inventory.WithDetail(fmt.Sprintf("Install attempt %d failed with %s: ", in.order.Attempt, result.Reason), result.Message,
			fmt.Sprintf(". Ingot retries at %s. ", inventory.FormatTime(in.imageRetryAt()))+failedInstallRemedy(result.Reason)),
	}
}

func sayPoweredOff(*input) Decision {
	return idle(infrav1.ReasonPoweredOff, "Powered off, as spec.power requests. Ingot starts nothing on the host. Unset spec.power to return it to service.")
}

func sayWrongServer(in *input) Decision {
	remedy := annotate(infrav1.InspectAnnotation)
	if in.claimed() {
		remedy = "delete its Machine and annotate " + inventory.CommandText(infrav1.ForceReleaseAnnotation)
	}
	return warn(infrav1.ReasonWrongServer, inventory.WithDetail("Wrong server: ", in.obs.WrongServer,
		". Correct spec.bmc.address, or if the mainboard is new "+remedy+"."))
}

func sayMACMissing(in *input) Decision {
	return warn(infrav1.ReasonBootMACNotFound, inventory.WithDetail(fmt.Sprintf("The BMC lists no NIC with spec.bootMACAddress %s, only ", in.host.Spec.BootMACAddress),
		inventory.ListSome(in.obs.KnownMACs, 3), ". Correct it. If the NIC only shows after power-on, power the server on once."))
}

func sayNetworkMissing(in *input) Decision {
	if in.obs.NetworkRefused != "" {
		return warn(in.obs.RefusedReason, in.obs.NetworkRefused)
	}
	return warn(infrav1.ReasonNetworkMissing, fmt.Sprintf("IngotNetwork %s does not exist. Ingot boots nothing until you create it or correct spec.networkRef.", in.host.Spec.NetworkRef.Name))
}

func sayAddressProblem(in *input) Decision {
	reason, remedy := in.obs.AddressReason, ". Ingot retries."
	if reason == "" {
		reason, remedy = infrav1.ReasonAddressesExhausted, ". Ingot retries. Widen spec.range of the IngotNetwork, or delete unused hosts."
	}
	decision := in.retry(reason, inventory.WithDetail("No address for the boot NIC: ", in.obs.AddressProblem, remedy))
	decision.Detail = in.obs.AddressProblem
	return decision
}

func sayAvailable(*input) Decision {
	return idle(infrav1.ReasonAvailable, "The host is inspected, free and ready to be claimed.")
}

// orderText has the words and reasons for an order of one kind.
type orderText struct {
	verb, noun, gerund string
	working, failed    string // reasons of conditions
	quarantine         infrav1.QuarantineReason
}

var orderTexts = map[infrav1.OrderKind]orderText{
	infrav1.OrderInstall: {"install", "install", "installing", infrav1.ReasonProvisioning, infrav1.ReasonInstallFailed, infrav1.QuarantineInstallFailed},
	infrav1.OrderClean:   {"clean", "cleaning", "cleaning", infrav1.ReasonCleaning, infrav1.ReasonCleanFailed, infrav1.QuarantineCleanFailed},
	infrav1.OrderInspect: {"inspect", "inspection", "inspecting", infrav1.ReasonInspecting, infrav1.ReasonInspectFailed, infrav1.QuarantineInspectFailed},
}

// text has the words and reasons for the host's order.
func (in *input) text() orderText { return orderTexts[in.order.Kind] }
