// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 is the spoke version of Ingot's Cluster API kinds: contract
// v1beta1 of Cluster API, as its InfraCluster and InfraMachine documents state
// it. It is served for readers of that contract; nothing is stored in it, and no
// controller uses it. The hub is package v1beta2; package webhooks/conversion
// converts between the two without loss.
//
// What differs from the hub: status.ready and status.failureDomains (a map), the
// conditions of old form in status.conditions with the new ones under
// status.v1beta2, and failureReason and failureMessage in status itself. A test
// of webhooks/conversion fails when the two versions' specs differ in any other
// way, so that no bound of the hub can be evaded by writing the spoke.
//
// The package holds types only. It must not know the hub, any client, or the
// conversion.
//
//	machine := &v1beta1.IngotMachine{}
//	machine.Spec.Image = v1beta1.Image{URL: "https://images.example/os.raw.zst", Checksum: "sha256:…"}
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1
