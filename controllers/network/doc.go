// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network shows the use of IngotNetworks in their status: the number of hosts and addresses,
// and condition Ready, which is False while hosts wait for an address and none is free.
//
// Nothing depends on this status. Hosts get their addresses by internal/ipam, from the same facts.
// Changes of hosts that arrive together cause one reconcile.
//
//	err := (&network.Reconciler{Client: mgr.GetClient()}).SetupWithManager(mgr, options)
package network
