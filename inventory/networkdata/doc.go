// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networkdata turns networkData of an IngotMachine into the network of one
// installed system: which of the host's interfaces are meant, which addresses they have,
// and the text that cloud-init reads (network configuration version 2,
// https://cloudinit.readthedocs.io/en/latest/reference/network-config-format-v2.html).
//
// It is pure: the same input gives the same text, in the same order. It knows no claim
// and no Kubernetes client; addresses that must be asked for (Pools) are asked for by its
// caller. Interfaces are matched by their permanent MAC address and named by set-name,
// and the name is the key of the entry as well, since some of cloud-init's renderers take
// the one and some the other (canonical/cloud-init issue 5717).
//
//	errs := networkdata.Check(path, data)            // at admission
//	network, err := networkdata.Resolve(data, networkdata.Sources{Host: …})
//	if errors.Is(err, networkdata.ErrMisfit) { … }   // another host may do
//	claim.Network = network.Claimed()
package networkdata
