// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// ReservedAddress is an address with source StaticLease, for which an IngotNetwork needs an entry.
type ReservedAddress struct {
	// Path leads to the entry of addresses.
	Path    *field.Path
	Network string
	Gateway infrav1.GatewayUse
	// leads: a gateway of the network would be the default route.
	leads bool
}

// The default routes.
const (
	leadIPv4 = "0.0.0.0/0"
	leadIPv6 = "::/0"
)

// ReservedAddressesIn lists the addresses with source StaticLease. path leads to the data.
func ReservedAddressesIn(path *field.Path, data *infrav1.NetworkData) []ReservedAddress {
	if data == nil {
		return nil
	}
	var out []ReservedAddress
	at := paths(path, data)
	for i, l := range linksOf(data) {
		for j, want := range l.config.Addresses {
			if want.Source == infrav1.AddressStaticLease && want.NetworkRef != nil {
				out = append(out, ReservedAddress{Path: at[i].Child("addresses").Index(j), Network: want.NetworkRef.Name, Gateway: want.Gateway,
					leads: gatewayLeads(want.Gateway, leadIPv4, l.config)})
			}
		}
	}
	return out
}

// SurplusGateway is an address whose gateway would be one default route too many.
type SurplusGateway struct {
	ReservedAddress
	// Router is the gateway of the address. Other describes the other default route.
	Router, Other string
}

// SurplusGatewaysIn lists the gateways of reserved addresses that Resolve would refuse for every host
// with the present networks, because there is another such gateway or a written default route.
// Addresses that are recorded or come from a pool are only known with the host. path leads to
// the data.
func SurplusGatewaysIn(path *field.Path, data *infrav1.NetworkData, networks map[string]infrav1.IngotNetworkSpec) []SurplusGateway {
	var out []SurplusGateway
	other := writtenLead(data)
	for _, r := range ReservedAddressesIn(path, data) {
		router := networks[r.Network].Gateway
		if router == "" || !r.leads {
			continue
		}
		if other != "" {
			out = append(out, SurplusGateway{ReservedAddress: r, Router: router, Other: other})
			continue
		}
		other = "the gateway of IngotNetwork " + r.Network
	}
	return out
}

// writtenLead describes the default route of IPv4 without a metric in networkData. Empty: none.
func writtenLead(data *infrav1.NetworkData) string {
	for _, l := range linksOf(data) {
		for _, r := range l.config.Routes {
			if r.To == leadIPv4 && r.Metric == nil {
				return "a route of " + l.name
			}
		}
	}
	return ""
}
