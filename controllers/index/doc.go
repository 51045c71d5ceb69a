// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package index names the indexes of the manager's cache, and sets them up: by
// them a host is found by its MAC address, its BMC or its Secret without a list
// of all hosts.
//
//	err := index.Setup(ctx, mgr.GetFieldIndexer())
//	err := c.List(ctx, &hosts, client.MatchingFields{index.HostByMAC: mac})
package index
