// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// addresses warns about addresses in networkData that no host can get with the current
// IngotNetworks. path is the path of networkData.
func (c Checker) addresses(ctx context.Context, path *field.Path, data *v1beta2.NetworkData) []string {
	written, reserved := networkdata.StaticAddressesIn(path, data), networkdata.ReservedAddressesIn(path, data)
	if len(written)+len(reserved) == 0 {
		return nil
	}
	networks, err := index.Networks(ctx, c.Reader)
	if err != nil {
		return nil // only a warning is lost
	}
	return slices.Concat(addressConflicts(written, networks), missingNetworks(reserved, networks), surplusGateways(networkdata.SurplusGatewaysIn(path, data, networks)))
}

const noHostUntil = "its machines get no host until then"

// addressConflicts warns about static addresses that an IngotNetwork uses otherwise. It accepts
// reserved addresses, because the reservation may be for the same interface, which is unknown
// before the machine has a host.
func addressConflicts(written []networkdata.StaticAddress, networks map[string]v1beta2.IngotNetworkSpec) []string {
	var warnings []string
	for _, w := range written {
		name, use := networkdata.KeptBy(networks, w.Address.Addr())
		if use == addressuse.None || use == addressuse.Reserved {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s: %q is %s of IngotNetwork %s; use another address: %s", w.Path, w.Address, use, name, noHostUntil))
	}
	return warnings
}

// missingNetworks warns about reservations on networks that do not exist. It does not check the
// reservations of existing networks, which may be added later.
func missingNetworks(reserved []networkdata.ReservedAddress, networks map[string]v1beta2.IngotNetworkSpec) []string {
	var warnings []string
	for _, r := range reserved {
		if _, exists := networks[r.Network]; !exists {
			warnings = append(warnings, fmt.Sprintf("%s: IngotNetwork %q does not exist; create it, or correct the name: %s",
				r.Path.Child("networkRef", "name"), r.Network, noHostUntil))
		}
	}
	return warnings
}

// surplusGateways warns about gateways that would be a second default route.
func surplusGateways(all []networkdata.SurplusGateway) []string {
	var warnings []string
	for _, s := range all {
		is := "unset"
		if s.Gateway != "" {
			is = fmt.Sprintf("%q", s.Gateway)
		}
		warnings = append(warnings, fmt.Sprintf("%s: is %s, so that the gateway %s of IngotNetwork %s is a second default route next to %s; set Ignore for one of them: %s",
			s.Path.Child("gateway"), is, s.Router, s.Network, s.Other, noHostUntil))
	}
	return warnings
}
