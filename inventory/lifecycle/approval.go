// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/hex"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// enrolledRules precede hostRules. They prevent any step on a host that Ingot registered for a
// discovered server, until an operator approves it. They decide about no other host.
func enrolledRules() ruleTable {
	return ruleTable{
		{Name: "enrolled", When: when{(*input).enrolled}, Rules: ruleTable{
			{Name: "enrolled/wanted", When: when{(*input).approved, (*input).managed}, Then: acceptEnrolled},
			{Name: "enrolled/approved", When: when{(*input).approved}, Then: sayBMCWanted},
			{Name: "enrolled/waits", Then: sayApprovalWanted},
		}},
	}
}

// enrolled reports whether Ingot discovered the server and has done nothing to it. The label
// has no effect on a host with a ledger.
func (in *input) enrolled() bool {
	_, labelled := in.host.Labels[infrav1.EnrolledLabel]
	return labelled && in.claim == nil && in.record == nil && in.order == nil && !in.deleting() && !in.duplicate()
}

func (in *input) managed() bool { return !in.unmanaged() }

func sayApprovalWanted(in *input) Decision {
	remedy := ". Delete the host, or to let Ingot shut it down and use it "
	if !in.managed() {
		remedy = ". Delete the host, or to use it set spec.bmc and "
	}
	return idle(infrav1.ReasonWaitingForApproval, inventory.WithDetail("Ingot found this server on IngotNetwork ", in.host.Spec.NetworkRef.Name,
		remedy+"annotate it with "+inventory.CommandText(infrav1.ApproveAnnotation)+"."))
}

func sayBMCWanted(*input) Decision {
	return idle(infrav1.ReasonWaitingForApproval, "The discovered server is approved, but has no BMC. Set spec.bmc.")
}

// acceptEnrolled keeps the approval, which also lets Ingot shut the server down (I8).
func acceptEnrolled(in *input) Decision {
	step := in.save(in.ledger())
	step.RemoveLabels = []string{infrav1.EnrolledLabel}
	return Decision{Step: step, Event: "Normal", Reason: infrav1.ReasonEnrolled,
		Message: "The discovered server is approved. Ingot inspects it next."}
}

// EnrolledNames returns names for the IngotHost of a discovered server, the best first: by its
// UUID and, if another server has that name, by its lowest MAC address. They do not depend on
// the NIC that it booted from. Empty: the server has no identity.
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

// SharesNIC reports whether two descriptions have a NIC in common, and so are of one server.
func SharesNIC(a, b infrav1.IngotHardwareSpec) bool {
	return slices.ContainsFunc(a.NICs, func(nic infrav1.HardwareNIC) bool {
		return slices.ContainsFunc(b.NICs, func(other infrav1.HardwareNIC) bool { return nic.MAC == other.MAC })
	})
}
