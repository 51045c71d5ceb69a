// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhooks implements Ingot's admission webhooks. They decide what a schema or a CEL rule
// cannot, because the decision needs another object, the order of addresses, or the requester.
// They also guard the persistent state (I9): only the manager changes claim, record, order and
// commands of an IngotHost.
//
// Every rejection names the field, the value and the remedy. A rule looks only at what differs
// from the stored object, so that labels, owners and finalizers of every stored object can change.
// Package warnings warns about valid input that does not work with the inventory. Package
// normalize writes equivalent values in one form, the same for a template and for the object made
// from it. All other defaults are in the schema. The webhooks do not handle subresources, and
// allow the deletions of clusterctl move.
//
// The package does not import BMC drivers, the boot server or a controller. Its only write to the
// API server is the SubjectAccessReview.
//
//	err := webhooks.SetupWithManager(mgr, webhooks.Options{
//		ManagerUsername: "system:serviceaccount:ingot-system:ingot-controller-manager",
//	})
package webhooks
