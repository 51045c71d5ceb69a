// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pool gets addresses from the pools of IPAM providers (Cluster API's IPAM contract), by
// IPAddressClaims. A host owns one claim for each network that names a pool; an IngotMachine owns one
// for each address of its networkData with source Pool. A claim is in its owner's namespace, moves
// with its owner (clusterctl move follows owners), and is deleted with it by the garbage collector.
//
// The package rejects addresses that others have (internal/index) or that a network keeps
// (inventory/addressuse). internal/ipam records the addresses, and inventory/networkdata renders them.
// If the contract's CRDs are not installed, nothing is watched, and a Problem says so.
//
//	answer, err := pool.Pools{Client: c}.Claim(ctx, host, network)
//	given, answer, err := pool.Pools{Client: c}.ClaimForMachine(ctx, pool.MachineRequest{…}, place)
//	answer, err := pool.Pools{Client: c}.KeepForMachine(ctx, pool.MachineRequest{…}, place, has)
//	if answer.Problem != "" { … }
package pool
