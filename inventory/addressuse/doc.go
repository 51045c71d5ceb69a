// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addressuse says what an address is in use for already: what an IngotNetwork
// keeps it for, and which hosts have it, by record or by the claim of the system that is
// installed on them.
//
// Addresses are compared on IngotNetworks alone. Their subnets do not overlap, so that one
// address there is one place; outside of them the same address may be a place in each of
// two networks that never meet, such as the storage networks of two clusters, and nobody
// here can tell. What two machines have of one pool internal/ipam/pool compares itself.
//
// It is pure, and knows neither who asks nor what for: whether an address may be had all
// the same is decided by inventory.AllocateAddress, inventory/networkdata, internal/ipam/pool
// and the webhooks.
//
//	holders := addressuse.Holders{}
//	holders.Recorded(hardware)
//	holders.Claimed(host)
//	if others := holders.Besides(address, self); len(others) > 0 { … }
//	if use := addressuse.Of(network.Spec, address); use == addressuse.Router { … }
package addressuse
