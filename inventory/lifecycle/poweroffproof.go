// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// OffProof is what there is beside a BMC's word that a host is off: it said on before, or
// took an order to switch off, since the host is to be off for what cannot be taken back.
// A BMC that was just restarted, or that has lost sight of the server, says off as well.
// The caller keeps it; where it is lost the host is ordered off once more. The zero value:
// there is none.
type OffProof struct {
	wish    string
	holds   bool
	on      bool
	refused int
}

// maxOffRefused is how often a BMC that says off may refuse to cut the power, until that is
// taken for what it says: there is nothing to cut.
const maxOffRefused = 3

// offWish names what the host is to be off for, where the BMC's word for it has
// consequences that cannot be taken back; empty: nothing.
func offWish(host *infrav1.IngotHost) string {
	in := inputOf(host)
	switch {
	case in.releasing() && in.notFenced():
		return "release " + in.claim.InstanceID
	case in.provisioned() && in.cycling() && in.cycleOff():
		return fmt.Sprintf("cycle %s %d", in.claim.InstanceID, in.claim.PowerCycle.AskedAt.Unix())
	case in.quarantinedNotFenced():
		return fmt.Sprintf("fence %d", in.record.Quarantine.Since.Unix())
	}
	return ""
}

// of is the proof for what the host is to be off for now.
func (p OffProof) of(host *infrav1.IngotHost) OffProof {
	if wish := offWish(host); wish != p.wish {
		return OffProof{wish: wish}
	}
	return p
}

// Seen takes in what the BMC says of the power.
func (p OffProof) Seen(host *infrav1.IngotHost, power infrav1.PowerState) OffProof {
	p = p.of(host)
	p.on = p.on || power == infrav1.PowerStateOn
	p.holds = p.holds || p.on
	return p
}

// SeenOn says whether the BMC has said on since the host is to be off.
func (p OffProof) SeenOn(host *infrav1.IngotHost) bool { return p.of(host).on }

// Ordered takes in that the BMC took an order to switch off.
func (p OffProof) Ordered(host *infrav1.IngotHost) OffProof {
	p = p.of(host)
	p.holds = true
	return p
}

// Refused takes in that the BMC refused one while it said off.
func (p OffProof) Refused(host *infrav1.IngotHost) OffProof {
	p = p.of(host)
	p.refused++
	return p
}

// Holds says whether off may be believed.
func (p OffProof) Holds(host *infrav1.IngotHost) bool {
	p = p.of(host)
	return p.wish != "" && (p.holds || p.refused >= maxOffRefused)
}

// Missing says whether off has to be more than the BMC's word, and is not.
func (p OffProof) Missing(host *infrav1.IngotHost) bool { return offWish(host) != "" && !p.Holds(host) }

// offUnproven: nothing but the BMC's word says that the host is off. A request to shut down
// that the status still knows was made while it was on.
func (in *input) offUnproven() bool { return !in.obs.OffProven && !in.softAsked() }

// proveOff cuts the power of a host of which the BMC says that it has none.
func (e explain) proveOff(in *input) Decision {
	reason, message := e(in)
	return Decision{Step: PowerOff{}, Event: "Normal", Reason: reason,
		Message: message + "; the BMC says off, and not after an order of Ingot's: to be sure Ingot cuts the power now, and believes it then"}
}

func sayForced(*input) (string, string) {
	return infrav1.ReasonNotFenced, "the host was released by force"
}
