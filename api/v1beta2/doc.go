// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 is the hub and storage version of Ingot's API: contract
// v1beta2 of Cluster API, and the only version that controllers use. Kinds that contract
// v1beta1 does not know (all but IngotCluster, IngotMachine and their templates) live
// here only.
//
// Spec holds what people want and, in the ledger of IngotHost (claim, record,
// order), what must never be forgotten (I3); status holds what can be observed
// or computed again.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta2
