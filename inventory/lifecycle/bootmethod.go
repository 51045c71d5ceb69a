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

// This file is the way by which a host gets the agent: what it is worth, and the image
// in the virtual drive of its BMC, which must not stay there.

// EjectMedia empties the BMC's virtual drive of Ingot's image, then saves that the
// record need not remember it any more.
type EjectMedia struct{}

func (EjectMedia) step() {}

// BootMethodOf is spec.bootMethod with its default.
func BootMethodOf(host *infrav1.IngotHost) infrav1.BootMethod {
	if host.Spec.BootMethod == "" {
		return infrav1.BootMethodPXE
	}
	return host.Spec.BootMethod
}

// BootTrustOf says what a boot of the agent on this host is worth, and the reason and
// message of its condition BootSecure. It goes by what the host is set to: that Secure
// Boot is truly on is seen to at each boot, which does not happen otherwise.
func BootTrustOf(host *infrav1.IngotHost) (trust infrav1.BootTrust, reason, message string) {
	method, secure := BootMethodOf(host), host.Spec.BootMode == infrav1.BootModeUEFISecureBoot
	switch {
	case method == infrav1.BootMethodPXE:
		return infrav1.BootTrustNetwork, infrav1.ReasonNetworkTrusted,
			"the agent comes by PXE: whoever can send on the provisioning network can put a program of theirs in its place; spec.bootMethod VirtualMedia, or HTTP with bootMode UEFISecureBoot, is verified"
	case !verifiesBMC(host.Spec.BMC):
		return infrav1.BootTrustNetwork, infrav1.ReasonBMCNotVerified,
			"what the host boots is named over a connection to the BMC that is not verified; give spec.bmc.address as redfish://, and caBundleRef or certificateFingerprint, without insecureSkipVerify and trustOnFirstUse"
	case method == infrav1.BootMethodHTTP && !secure:
		return infrav1.BootTrustNetwork, infrav1.ReasonImageNotVerified,
			"the firmware takes the image by HTTP from whoever answers; set spec.bootMode to UEFISecureBoot, and enrol the key that signed the image"
	case secure:
		return infrav1.BootTrustVerified, infrav1.ReasonBootVerified, "the firmware starts only what is signed by a key that it knows"
	default:
		return infrav1.BootTrustVerified, infrav1.ReasonBootVerified, "the BMC, over a verified connection, is told which image to show the host"
	}
}

// verifiesBMC: the BMC proves itself by a certificate that somebody vouched for.
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

// verifiedDemanded: the cluster of the claim wants verified boots.
func (in *input) verifiedDemanded() bool {
	return in.claim != nil && in.claim.BootTrust == infrav1.BootTrustVerified
}

func (in *input) bootNotVerified() bool {
	trust, _, _ := BootTrustOf(in.host)
	return trust != infrav1.BootTrustVerified
}

func sayBootNotVerified(in *input) Decision {
	_, _, why := BootTrustOf(in.host)
	return warn(infrav1.ReasonBootNotVerified, fmt.Sprintf("cluster %s demands a verified boot, and the host has none any more: %s", in.claim.ClusterName, why))
}

// namedByBMC: the BMC is told the address of what the host boots.
func (in *input) namedByBMC() bool { return BootMethodOf(in.host) != infrav1.BootMethodPXE }

func (in *input) bootServerUnknown() bool { return in.obs.BootServerUnknown }

func sayBootServerUnknown(in *input) Decision {
	return warn(infrav1.ReasonBootServerUnknown, fmt.Sprintf("the host boots by %s, and the manager was not told where a boot server is: "+
		"start it with --boot-url, or set spec.bootMethod to PXE", BootMethodOf(in.host)))
}

// Virtual media.

func (in *input) byMedia() bool { return BootMethodOf(in.host) == infrav1.BootMethodVirtualMedia }

// mediaNoted: an image of ours may be in the drive; mediaUnnoted: it is not.
func (in *input) mediaNoted() bool {
	return in.record != nil && !in.record.VirtualMediaAt.IsZero()
}
func (in *input) mediaUnnoted() bool { return !in.mediaNoted() }

// mediaSpent: nobody boots from the image now. The agent's first word says that it
// runs, all of it in memory; and a person who keeps the host off, or works on it, may
// do so for long.
func (in *input) mediaSpent() bool {
	return in.order == nil || in.ended() || in.contacted() || !in.byMedia() ||
		in.off() && (in.wantedOff() || in.maintenance())
}

// bmcTells: the BMC may be acted on.
func (in *input) bmcTells() bool {
	return !in.bmcProblem() && !in.powerUnknown() && !in.wrongServer()
}

// noteMedia remembers the image before it is put into the drive: after a crash, or with
// all status lost, it is known that there may be one (I3).
func noteMedia(in *input) Decision {
	ledger := in.ledger()
	ledger.recorded().VirtualMediaAt = in.now()
	return Decision{Step: in.save(ledger), Reason: workReason(in.order.Kind), Message: "Ingot has the BMC show the host its CD image next"}
}

func ejectMedia(*input) Decision {
	return Decision{Step: EjectMedia{}, Reason: infrav1.ReasonEjectingMedia, Message: "the CD image is not needed any more; Ingot takes it out of the BMC's virtual drive"}
}

// WithoutMedia is the ledger of a host whose drive is empty again.
func WithoutMedia(host *infrav1.IngotHost) Ledger {
	ledger := LedgerOf(host)
	ledger.recorded().VirtualMediaAt = metav1.Time{}
	return ledger
}
