// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/hex"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// enrolledLadder stands before the ladder of a host's life: nothing is done to a host
// that Ingot made itself, for a machine that it found, before a person wants it. It
// decides nothing about any other host.
func enrolledLadder() ladder {
	return ladder{
		{Name: "enrolled", When: when{(*input).enrolled}, Rules: ladder{
			{Name: "enrolled/wanted", When: when{(*input).approved, (*input).managed}, Then: acceptEnrolled},
			{Name: "enrolled/approved", When: when{(*input).approved}, Then: sayBMCWanted},
			{Name: "enrolled/waits", Then: sayApprovalWanted},
		}},
	}
}

// enrolled: Ingot found the machine, and nothing was ever done to it. A host that is in
// the ledger lives on, whoever labels it.
func (in *input) enrolled() bool {
	_, labelled := in.host.Labels[infrav1.EnrolledLabel]
	return labelled && in.claim == nil && in.record == nil && in.order == nil && !in.deleting() && !in.duplicate()
}

func (in *input) managed() bool { return !in.unmanaged() }

func sayApprovalWanted(in *input) Decision {
	missing := "give it spec.bmc, "
	if in.managed() {
		missing = ""
	}
	return idle(infrav1.ReasonWaitingForApproval, "Ingot found this machine on network "+in.host.Spec.NetworkRef.Name+
		" and does nothing to it before a person wants it: "+missing+"set the annotation "+inventory.CommandText(infrav1.ApproveAnnotation)+
		" to let Ingot take it over (it is shut down then, if it is on), or delete the host")
}

func sayBMCWanted(*input) Decision {
	return idle(infrav1.ReasonWaitingForApproval, "the machine that Ingot found is approved, and waits for its BMC: give spec.bmc")
}

// acceptEnrolled leaves the approval: it also lets Ingot shut the machine down (I8).
func acceptEnrolled(in *input) Decision {
	step := in.save(in.ledger())
	step.RemoveLabels = []string{infrav1.EnrolledLabel}
	return Decision{Step: step, Event: "Normal", Reason: infrav1.ReasonEnrolled,
		Message: "approved: Ingot takes the machine over as any registered host, and inspects it first"}
}

// EnrolledNames are names for the IngotHost of a machine that was found, the best first:
// by its UUID, and, for when that name is another machine's, by its lowest MAC address.
// Whichever NIC it booted by, they are the same. None: it says nothing by which to
// know it.
func EnrolledNames(facts infrav1.IngotHardwareSpec) []string {
	var names []string
	if raw := inventory.UUIDBytes(facts.System.UUID); raw != nil {
		text := hex.EncodeToString(raw)
		names = append(names, "enrolled-"+strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-"))
	}
	if len(facts.NICs) > 0 { // they are sorted
		names = append(names, "enrolled-"+strings.ReplaceAll(facts.NICs[0].MAC, ":", "-"))
	}
	return names
}

// SharesNIC says whether two descriptions have a NIC in common: then they are of one
// machine.
func SharesNIC(a, b infrav1.IngotHardwareSpec) bool {
	macs := map[string]bool{}
	for _, nic := range a.NICs {
		macs[nic.MAC] = true
	}
	for _, nic := range b.NICs {
		if macs[nic.MAC] {
			return true
		}
	}
	return false
}
