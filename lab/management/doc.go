// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package management puts Ingot on a management cluster of the lab: manifests,
// webhooks by URL, and managers as child processes under the service account and
// the role that are shipped. It starts a binary and knows nothing of what is in it.
//
//	plane, err := controlplane.Start(ctx, controlplane.Options{Dir: dir})
//	err = plane.InstallClusterAPI(ctx)
//	ingot, err := management.Install(ctx, plane, management.Options{Dir: dir, ConfigDir: "config/default"})
//	manager, err := ingot.StartManager(ctx, management.Manager{Name: "a", Command: ...})
package management
