// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ignition makes of a bootstrap provider's data the configuration that an
// installed system's Ignition reads, with what Ingot tells the system of itself.
//
// Ignition of Fedora CoreOS and its relatives reads version 3 of its specification
// alone, and Cluster API's kubeadm provider writes version 2.3: so that is translated.
// What version 3 cannot say is refused, and never left out. Ingot's own part stands
// around the data by Ignition's own merging, in which the data wins.
//
// It is pure: bytes in, bytes out. It must not know hosts, Secrets or the API server.
// No error holds a value of the configuration but names and paths.
//
//	config, err := ignition.Config(secret.Data["value"], ignition.Additions{Hostname: "w-1"})
package ignition
