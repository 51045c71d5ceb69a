// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// This file has the boot methods: how far a boot of the agent can be trusted, and the image in
// the BMC's virtual drive, which Ingot must eject.

// EjectMedia ejects Ingot's image from the BMC's virtual drive, then saves WithoutMedia.
type EjectMedia struct{}

func (EjectMedia) step() {}

// BootMethodOf returns spec.bootMethod with its default, PXE.
func BootMethodOf(host *infrav1.IngotHost) infrav1.BootMethod {
	if host.Spec.BootMethod == "" {
		return infrav1.BootMethodPXE
	}
	return host.Spec.BootMethod
}

// BootTrustOf returns how far a boot of the agent on the host can be trusted, with the reason
// and message of the condition BootSecure. It uses the spec only: each boot separately requires
// that Secure Boot is on if the spec says so.
func BootTrustOf(host *infrav1.IngotHost) (trust infrav1.BootTrust, reason, message string) {
	method, secure := BootMethodOf(host), host.Spec.BootMode == infrav1.BootModeUEFISecureBoot
	switch {
	case method == infrav1.BootMethodPXE:
		return infrav1.BootTrustNetwork, infrav1.ReasonNetworkTrusted,
			"PXE boots are not verified: any device on the provisioning network can answer them. Set spec.bootMethod to VirtualMedia, or to HTTP with bootMode UEFISecureBoot."
	case !verifiesBMC(host.Spec.BMC):
		return infrav1.BootTrustNetwork, infrav1.ReasonBMCNotVerified,
			"Boots are set over an unverified BMC connection. Use redfish:// in spec.bmc.address with caBundleRef or certificateFingerprint, without insecureSkipVerify or trustOnFirstUse."
	case method == infrav1.BootMethodHTTP && !secure:
		return infrav1.BootTrustNetwork, infrav1.ReasonImageNotVerified,
			"The firmware boots any image it gets by HTTP. Set spec.bootMode to UEFISecureBoot, and enroll the key that signed the image."
	case secure:
		return infrav1.BootTrustVerified, infrav1.ReasonBootVerified, "The firmware starts only images that are signed by a key it trusts."
	default:
		return infrav1.BootTrustVerified, infrav1.ReasonBootVerified, "Ingot selects the boot image over a verified connection to the BMC."
	}
}

// verifiesBMC reports whether the BMC's certificate is verified by a CA or a pin.
func verifiesBMC(bmc *infrav1.BMC) bool {
	return bmc != nil && strings.HasPrefix(bmc.Address, "redfish://") &&
		!isSet(bmc.InsecureSkipVerify) && !isSet(bmc.TrustOnFirstUse)
}

func isSet(flag *bool) bool { return flag != nil && *flag }

func (in *input) bootSecure() metav1.Condition {
	trust, reason, message := BootTrustOf(in.host)
	if trust == infrav1.BootTrustVerified {
		return inventory.TrueCondition(infrav1.HostBootSecureCondition, reason, message)
	}
	return inventory.FalseCondition(infrav1.HostBootSecureCondition, reason, message)
}

// verifiedDemanded reports whether the cluster of the claim requires verified boots.
func (in *input) verifiedDemanded() bool {
	return in.claim != nil && in.claim.BootTrust == infrav1.BootTrustVerified
}

func (in *input) bootNotVerified() bool {
	trust, _, _ := BootTrustOf(in.host)
	return trust != infrav1.BootTrustVerified
}

func sayBootNotVerified(in *input) Decision {
	_, _, why := BootTrustOf(in.host)
	return warn(infrav1.ReasonBootNotVerified, inventory.WithDetail("The cluster requires a verified boot. ", why, "."))
}

// namedByBMC reports whether Ingot sets the boot image through the BMC.
func (in *input) namedByBMC() bool { return BootMethodOf(in.host) != infrav1.BootMethodPXE }

func (in *input) bootServerUnknown() bool { return in.obs.BootServerUnknown }

func sayBootServerUnknown(in *input) Decision {
	return warn(infrav1.ReasonBootServerUnknown, fmt.Sprintf("The host boots by %s, but the manager knows no boot server. Start the manager with --boot-url, or set spec.bootMethod to PXE.", BootMethodOf(in.host)))
}

// Virtual media.

func (in *input) byMedia() bool { return BootMethodOf(in.host) == infrav1.BootMethodVirtualMedia }

// mediaRecorded reports whether Ingot's image may be in the drive.
func (in *input) mediaRecorded() bool {
	return in.record != nil && !in.record.VirtualMediaTime.IsZero()
}
func (in *input) mediaNotRecorded() bool { return !in.mediaRecorded() }

// mediaUnneeded reports whether no boot needs the image. The agent runs in memory once it has
// reported. An operator may keep the host off or in maintenance for long.
func (in *input) mediaUnneeded() bool {
	return in.order == nil || in.ended() || in.contacted() || !in.byMedia() ||
		in.off() && (in.wantedOff() || in.maintenance())
}

// bmcUsable reports whether Ingot may send actions to the BMC.
func (in *input) bmcUsable() bool {
	return !in.bmcProblem() && !in.powerUnknown() && !in.wrongServer()
}

// recordMedia records the image before Ingot inserts it, so that Ingot ejects it after a crash
// or a loss of status (I3).
func recordMedia(in *input) Decision {
	ledger := in.ledger()
	ledger.recorded().VirtualMediaTime = in.now()
	return Decision{Step: in.save(ledger), Reason: in.text().working, Message: "Ingot inserts its CD image into the BMC's virtual drive next."}
}

func ejectMedia(*input) Decision {
	return Decision{Step: EjectMedia{}, Reason: infrav1.ReasonEjectingVirtualMedia, Message: "Ingot ejects its CD image from the BMC's virtual drive, since the host no longer needs it."}
}

// WithoutMedia returns the ledger of a host whose virtual drive is empty.
func WithoutMedia(host *infrav1.IngotHost) Ledger {
	ledger := LedgerOf(host)
	ledger.recorded().VirtualMediaTime = metav1.Time{}
	return ledger
}
