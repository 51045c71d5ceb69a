// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pool gets addresses from pools of Cluster API's IPAM contract by
// IPAddressClaims: one for each host and network that names a pool, which the host owns,
// and one for each place of a machine's networkData with source Pool, which the
// IngotMachine owns. A claim is in its owner's namespace, moves with it (clusterctl move
// follows owners), and is released with it, by the garbage collector.
//
// It says what networkData wants of a pool (networkdata.PoolPlace), and refuses what
// others have (internal/index) or a network keeps (inventory/addressuse). It must
// not know which host a machine gets, nor what becomes of an address: it is recorded by
// internal/ipam, or rendered by inventory/networkdata. Where the contract's
// definitions are not installed nothing is watched, and who needs a pool is told so.
//
//	answer, err := pool.Pools{Client: c}.Claim(ctx, host, network)
//	given, answer, err := pool.Pools{Client: c}.ClaimForMachine(ctx, pool.ForMachine{…}, place)
//	answer, err := pool.Pools{Client: c}.KeepForMachine(ctx, pool.ForMachine{…}, place, has)
//	if answer.Problem != "" { … }
package pool
