// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networkdata turns networkData of an IngotMachine into the network of one installed
// system: the interfaces of the host, their addresses, and the text for cloud-init (network
// configuration version 2,
// https://cloudinit.readthedocs.io/en/latest/reference/network-config-format-v2.html).
//
// It is pure and deterministic, and uses no Kubernetes client. Its caller gets the addresses of
// pools. Interfaces are matched by their permanent MAC address and named by set-name. The name
// is also the key of the entry, because some renderers of cloud-init use the one and some the
// other (canonical/cloud-init issue 5717).
//
//	errs := networkdata.Check(path, data)            // at admission
//	network, err := networkdata.Resolve(data, networkdata.Sources{Host: …})
//	if errors.Is(err, networkdata.ErrMisfit) { … }   // another host may do
//	claim.Network = network.Claimed()
package networkdata
