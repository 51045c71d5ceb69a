// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster reconciles IngotClusters. It waits for the control plane endpoint and publishes
// the failure domains of the inventory (C06–C09). It creates no load balancer.
//
//	err := (&cluster.Reconciler{Client: mgr.GetClient(), Recorder: rec}).SetupWithManager(ctx, mgr, opts)
package cluster
