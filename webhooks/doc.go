// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhooks is Ingot's admission: what a schema or a CEL rule cannot
// decide because it needs another object, the order of addresses, or who asks.
// Among it is the ledger's guard (I9): claim, record and order of an IngotHost
// are changed by the manager's identity only.
//
// Every refusal names the field, the value and what to do instead. Nothing is
// defaulted here: defaults stand in the schema, so that they are the same for a
// template and the object made from it. Subresources are never asked about, and
// objects that clusterctl move deletes from the source cluster are let go.
//
// The package must not know the BMC drivers, the boot server or any controller,
// and never writes to the API server but to ask it what a requester may do.
//
//	err := webhooks.SetupWithManager(mgr, webhooks.Options{
//		ManagerUsername: "system:serviceaccount:ingot-system:ingot-controller-manager",
//	})
package webhooks
