// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// SameAvailability reports whether a change of a host leaves the failure domains of all clusters
// (FailureDomains) and the addresses in use (addressuse.Owners) unchanged. Of the ledger, which
// Ingot writes often, it compares the results of these functions; of the rest of the spec,
// everything. It ignores status and generation.
func SameAvailability(before, after *infrav1.IngotHost) bool {
	return availabilityOf(before) == availabilityOf(after) && maps.Equal(before.Labels, after.Labels) &&
		slices.Equal(addressuse.InLedger(before), addressuse.InLedger(after)) &&
		SameDesiredSettings(before, after)
}

// SameDesiredSettings reports whether the spec without the ledger is unchanged. It ignores labels.
func SameDesiredSettings(before, after *infrav1.IngotHost) bool {
	return equality.Semantic.DeepEqual(desiredSettings(before), desiredSettings(after))
}

// availability is the part of the ledger on which failure domains depend.
type availability struct {
	free, returning bool
	// claimed is the cluster of the claim, and domain the failure domain that the claim fixes.
	claimed, domain string
	// data is the cluster whose data the host has.
	data string
}

func availabilityOf(host *infrav1.IngotHost) availability {
	o := availability{free: lifecycle.IsFreeBySpec(host)}
	if claim := host.Spec.Claim; claim != nil {
		o.claimed, o.domain = claim.ClusterName, claim.FailureDomain
		o.returning = lifecycle.IsReturning(host, claim.ClusterName)
	}
	if record := host.Spec.Record; record != nil {
		o.data = record.LastClusterName
	}
	return o
}

// desiredSettings returns the spec without the ledger.
func desiredSettings(host *infrav1.IngotHost) infrav1.IngotHostSpec {
	spec := host.Spec
	spec.Claim, spec.Record, spec.Order, spec.Commands = nil, nil, nil, nil
	return spec
}

// SameFacts is SameAvailability for a host's hardware. It ignores the report of the installed
// system and the facts about the BMC.
func SameFacts(before, after *infrav1.IngotHardware) bool {
	return equality.Semantic.DeepEqual(factsOf(before), factsOf(after))
}

func factsOf(hardware *infrav1.IngotHardware) infrav1.IngotHardwareSpec {
	spec := hardware.Spec
	spec.Booted, spec.BMC = nil, nil
	return spec
}
