// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package owner finds an object's owner of one kind, of whatever version: a kind without
// its group may be somebody else's, and the version changes with Cluster API's. It reads
// nothing from the API server; whether the owner is there still, the caller asks.
//
//	if ref := owner.Find(machine, clusterv1.GroupVersion.WithKind("Machine").GroupKind()); ref != nil {
//		// ref.Name, in the machine's namespace
//	}
package owner
