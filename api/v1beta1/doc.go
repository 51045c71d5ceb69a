// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 is the spoke version of Ingot's Cluster API kinds. It implements the InfraCluster
// and InfraMachine contracts v1beta1 of Cluster API. The API server serves it to clients of that
// contract, but stores no objects in it, and no controller uses it. The hub is package v1beta2.
// Package webhooks/conversion converts between the two versions without loss.
//
// The status differs from the hub: it has ready, and failureDomains is a map. status.conditions has
// the old format, and the conditions of the hub are in status.v1beta2. failureReason and
// failureMessage are in status itself. A test of webhooks/conversion fails if the specs of the two
// versions differ, so that a client cannot bypass the validation of the hub.
//
// The package contains types only. It must not import the conversion or a client.
//
//	machine := &v1beta1.IngotMachine{}
//	machine.Spec.Image = v1beta1.Image{URL: "https://images.example/os.raw.zst", Checksum: "sha256:…"}
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1beta1
