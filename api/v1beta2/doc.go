// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 is the hub and storage version of Ingot's API. It implements contract v1beta2 of
// Cluster API, and controllers use only this version. Only IngotCluster, IngotMachine and their
// templates also exist in package v1beta1, because contract v1beta1 does not know the other kinds.
//
// The spec contains what users request. In IngotHost it also contains persistent state (claim,
// record, order, commands) that must not be lost (I3). The status contains only what Ingot can
// observe or compute again.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta2
