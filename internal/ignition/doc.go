// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ignition turns the data of a bootstrap provider into the Ignition configuration of an installed
// system, with Ingot's additions.
//
// Ignition of Fedora CoreOS and related systems reads only version 3 of the specification, but Cluster
// API's kubeadm provider writes version 2.3, which this package translates. It rejects what version 3
// cannot express. Ignition merges Ingot's additions with the data, and the data wins.
//
// The package works on bytes only. Its errors contain names and paths, but no values of the
// configuration.
//
//	config, err := ignition.Config(secret.Data["value"], ignition.Additions{Hostname: "w-1"})
package ignition
