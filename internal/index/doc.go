// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index names the indexes of the manager's cache, and sets them up: by
// them a host is found by its MAC address, its BMC or its Secret without a list
// of all hosts. It also looks up by them which hosts have an address (HoldersOf), so that
// whoever gives addresses asks in one way; what that means inventory/addressuse says. And
// it asks for the reconciliation of what it finds (Requests), for the controllers' watches.
//
//	err := index.Setup(ctx, mgr.GetFieldIndexer())
//	err := c.List(ctx, &hosts, client.MatchingFields{index.HostByMAC: mac})
package index
