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

// SameAvailability says whether a host after a change is the same as before to the failure domains
// of any cluster (see FailureDomains), and to those who ask which addresses are in use
// (addressuse.Holders). Of the ledger, which Ingot itself writes a dozen times between one
// claim and the next, it compares what the functions there make of it; of the rest of the
// spec, which people write, everything: it may be asked for tomorrow. Status and
// generation are nothing to either.
func SameAvailability(before, after *infrav1.IngotHost) bool {
	return availabilityOf(before) == availabilityOf(after) && maps.Equal(before.Labels, after.Labels) &&
		slices.Equal(addressuse.InLedger(before), addressuse.InLedger(after)) &&
		SameDesiredSettings(before, after)
}

// SameDesiredSettings says whether people want the same of a host as before, labels aside.
func SameDesiredSettings(before, after *infrav1.IngotHost) bool {
	return equality.Semantic.DeepEqual(desiredSettings(before), desiredSettings(after))
}

// availability is what the ledger comes to.
type availability struct {
	free, returning bool
	// claimed is by whom, and domain what the claim froze.
	claimed, domain string
	// data is whose the host holds.
	data string
}

func availabilityOf(host *infrav1.IngotHost) availability {
	o := availability{free: lifecycle.FreeBySpec(host)}
	if claim := host.Spec.Claim; claim != nil {
		o.claimed, o.domain = claim.ClusterName, claim.FailureDomain
		o.returning = lifecycle.Returning(host, claim.ClusterName)
	}
	if record := host.Spec.Record; record != nil {
		o.data = record.LastClusterName
	}
	return o
}

// desiredSettings are the spec without the ledger and the order of the moment.
func desiredSettings(host *infrav1.IngotHost) infrav1.IngotHostSpec {
	spec := host.Spec
	spec.Claim, spec.Record, spec.Order, spec.Commands = nil, nil, nil, nil
	return spec
}

// SameFacts is SameAvailability of a host's hardware: all counts but what the system installed
// there says of itself, once for each installation, and how the BMC is known.
func SameFacts(before, after *infrav1.IngotHardware) bool {
	return equality.Semantic.DeepEqual(factsOf(before), factsOf(after))
}

func factsOf(hardware *infrav1.IngotHardware) infrav1.IngotHardwareSpec {
	spec := hardware.Spec
	spec.Booted, spec.BMC = nil, nil
	return spec
}
