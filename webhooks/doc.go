// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhooks is Ingot's admission: what a schema or a CEL rule cannot
// decide because it needs another object, the order of addresses, or who asks.
// Among it is the ledger's guard (I9): claim, record and order of an IngotHost
// are changed by the manager's identity only.
//
// Every refusal names the field, the value and what to do instead. A rule looks at
// what differs from the stored object, so that labels, owners and finalizers of
// whatever stands can be changed. What is legal but will not work is warned of
// (package outlook), and another way of writing the same is brought into one form
// (package canonical), alike for a template and the object made from it; all other
// defaults stand in the schema. Subresources are never asked about, and objects that
// clusterctl move deletes from the source cluster are let go.
//
// The package must not know the BMC drivers, the boot server or any controller,
// and never writes to the API server but to ask it what a requester may do.
//
//	err := webhooks.SetupWithManager(mgr, webhooks.Options{
//		ManagerUsername: "system:serviceaccount:ingot-system:ingot-controller-manager",
//	})
package webhooks
