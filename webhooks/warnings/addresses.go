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

// addresses warns of those in networkData that no host can be given with the IngotNetworks
// as they are. path leads to networkData.
func (o Outlook) addresses(ctx context.Context, path *field.Path, data *v1beta2.NetworkData) []string {
	written, reserved := networkdata.WrittenIn(path, data), networkdata.ReservedIn(path, data)
	if len(written)+len(reserved) == 0 {
		return nil
	}
	networks, err := index.Networks(ctx, o.Reader)
	if err != nil {
		return nil // it is a warning only
	}
	return slices.Concat(keptAddresses(written, networks), missingNetworks(reserved, networks), surplusGateways(networkdata.SurplusIn(path, data, networks)))
}

const noHostUntil = "until then no host is given to its machines"

// keptAddresses warns of those that are written, and that an IngotNetwork has for
// something else. One that is reserved may be so for the interface that it is written for:
// that is not known before a host is.
func keptAddresses(written []networkdata.Written, networks map[string]v1beta2.IngotNetworkSpec) []string {
	var warnings []string
	for _, w := range written {
		name, use := networkdata.Kept(networks, w.Address.Addr())
		if use == addressuse.None || use == addressuse.Reserved {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s: %q is %s of IngotNetwork %s; give another, %s", w.Path, w.Address, use, name, noHostUntil))
	}
	return warnings
}

// missingNetworks warns of reservations on networks that do not exist yet. What one that
// does has reserved, and for which server, is written later, or for servers to come.
func missingNetworks(reserved []networkdata.Reserved, networks map[string]v1beta2.IngotNetworkSpec) []string {
	var warnings []string
	for _, r := range reserved {
		if _, exists := networks[r.Network]; !exists {
			warnings = append(warnings, fmt.Sprintf("%s: IngotNetwork %q does not exist; create it, or correct the name, %s",
				r.Path.Child("networkRef", "name"), r.Network, noHostUntil))
		}
	}
	return warnings
}

// surplusGateways warns of gateways that are one default route too many.
func surplusGateways(all []networkdata.Surplus) []string {
	var warnings []string
	for _, s := range all {
		is := "unset"
		if s.Gateway != "" {
			is = fmt.Sprintf("%q", s.Gateway)
		}
		warnings = append(warnings, fmt.Sprintf("%s: is %s, so that the gateway %s of IngotNetwork %s is a default route, as %s is; say Ignore where it is not to be the default route, %s",
			s.Path.Child("gateway"), is, s.Router, s.Network, s.Other, noHostUntil))
	}
	return warnings
}
