// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index defines and sets up the indexes of the manager's cache. With them a host is found by
// its MAC address, BMC or Secret without a list of all hosts. The package also finds the hosts that
// have an address (OwnersOf; see inventory/addressuse), and turns the objects that it finds into
// reconcile requests (Requests) for the controllers' watches.
//
//	err := index.Setup(ctx, mgr.GetFieldIndexer())
//	err := c.List(ctx, &hosts, client.MatchingFields{index.HostByMAC: mac})
package index
