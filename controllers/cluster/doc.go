// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reconciles IngotClusters: it waits for the endpoint, and
// publishes the failure domains that the inventory offers (C06–C09). It makes no
// load balancer and touches no server.
//
//	err := (&cluster.Reconciler{Client: mgr.GetClient(), Recorder: rec}).SetupWithManager(ctx, mgr, opts)
package cluster
