// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gitops proves I23 against what Argo CD, Flux and people delete, and in which order:
// a real API server, with the admission plugin OwnerReferencesPermissionEnforcement on, the
// real kube-controller-manager (garbage collector, namespace controller), Ingot's manager as a
// process, simulated servers. In TestGitOps the controllers of Cluster API do not run: what
// they delete, the tests delete. In TestClusterAPI they do, without that plugin.
//
// Every host ends clean and off, or waits under a condition whose remedy works: the drill
// applies the remedy.
//
//	go test ./test/gitops
//	INGOT_FULL=1 go test -v ./test/gitops
package gitops
