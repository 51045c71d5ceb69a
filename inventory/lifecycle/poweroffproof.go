// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// OffProof is proof, besides the BMC's report, that a host is off before an irreversible step:
// since the step is due, the BMC reported on, or accepted a power-off. A BMC that was just
// restarted, or that has lost contact with the server, also reports off. The caller keeps the
// proof; without it Ingot powers the host off once more. The zero value is no proof.
type OffProof struct {
	wish    string
	holds   bool
	on      bool
	refused int
}

// maxOffRefused is how often a BMC that reports off must refuse to cut the power until Ingot
// accepts that there is none.
const maxOffRefused = 3

// offPurpose identifies the irreversible step that needs the host off. Empty: none.
func offPurpose(host *infrav1.IngotHost) string {
	in := inputOf(host)
	switch {
	case in.releasing() && in.notFenced():
		return "release " + in.claim.InstanceID
	case in.provisioned() && in.cycling() && in.cycleOff():
		return fmt.Sprintf("cycle %s %d", in.claim.InstanceID, in.claim.PowerCycle.RequestTime.Unix())
	case in.quarantinedNotFenced():
		return fmt.Sprintf("fence %d", in.record.Quarantine.StartTime.Unix())
	}
	return ""
}

// of returns the proof for the present step.
func (p OffProof) of(host *infrav1.IngotHost) OffProof {
	if wish := offPurpose(host); wish != p.wish {
		return OffProof{wish: wish}
	}
	return p
}

// Seen records the power state that the BMC reports.
func (p OffProof) Seen(host *infrav1.IngotHost, power infrav1.PowerState) OffProof {
	p = p.of(host)
	p.on = p.on || power == infrav1.PowerStateOn
	p.holds = p.holds || p.on
	return p
}

// SeenOn reports whether the BMC has reported on since the host must be off.
func (p OffProof) SeenOn(host *infrav1.IngotHost) bool { return p.of(host).on }

// Ordered records that the BMC accepted a power-off.
func (p OffProof) Ordered(host *infrav1.IngotHost) OffProof {
	p = p.of(host)
	p.holds = true
	return p
}

// Refused records that the BMC refused a power-off while it reported off.
func (p OffProof) Refused(host *infrav1.IngotHost) OffProof {
	p = p.of(host)
	p.refused++
	return p
}

// Holds reports whether the proof suffices.
func (p OffProof) Holds(host *infrav1.IngotHost) bool {
	p = p.of(host)
	return p.wish != "" && (p.holds || p.refused >= maxOffRefused)
}

// Missing reports whether a step needs proof that does not suffice yet.
func (p OffProof) Missing(host *infrav1.IngotHost) bool {
	return offPurpose(host) != "" && !p.Holds(host)
}

// offUnproven reports whether only the BMC's report says that the host is off. A shutdown
// request in the status is proof, because it was made while the host was on.
func (in *input) offUnproven() bool { return !in.obs.OffProven && !in.softAsked() }

// proveOff cuts the power of a host that the BMC reports off.
func (e explain) proveOff(in *input) Decision {
	reason, message := e(in)
	return Decision{Step: PowerOff{}, Event: "Normal", Reason: reason,
		Message: message + " The BMC reports off without a power-off by Ingot. To be sure, Ingot cuts the power."}
}

func sayForced(*input) (string, string) {
	return infrav1.ReasonNotFenced, "The host was released by force."
}
