// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package addressuse reports the uses of an address: what an IngotNetwork keeps it for, and
// which hosts have it, by record or by the claim of their installed system.
//
// It only compares addresses of IngotNetworks, whose subnets do not overlap. Other addresses may
// be in two separate networks, such as the storage networks of two clusters. internal/ipam/pool
// compares the addresses of a pool.
//
// It is pure, and does not decide whether an address may be used: that do
// inventory.AllocateAddress, inventory/networkdata, internal/ipam/pool and the webhooks.
//
//	holders := addressuse.Owners{}
//	holders.Recorded(hardware)
//	holders.Claimed(host)
//	if others := holders.Besides(address, self); len(others) > 0 { … }
//	if use := addressuse.Of(network.Spec, address); use == addressuse.Router { … }
package addressuse
