// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pool gets the addresses of hosts from pools of Cluster API's IPAM contract:
// one IPAddressClaim for each host and network, in the host's namespace, that the host
// owns. So it moves with the host (clusterctl move follows owners), and is released
// with it, by the garbage collector.
//
// It must not know what an address is for. Where the contract's definitions are not
// installed nothing is watched, and hosts on networks that name a pool are told so.
//
//	answer, err := pool.Pools{Client: c}.Claim(ctx, host, network)
//	if answer.Problem != "" { … }
package pool
