// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"github.com/ingot-metal/ingot/internal/ignition"
)

// RenderIgnition makes of the Ignition configuration in a bootstrap Secret the one that
// the installed system gets: with its host name, the metadata that cloud-init finds as
// instance metadata in ignition.MetadataFile, and the script that reports the first boot.
// An error is ignition.ErrConfig, or that of a seed.
func RenderIgnition(userData []byte, in SeedInput) ([]byte, error) {
	seed, err := RenderSeed(in)
	if err != nil {
		return nil, err
	}
	metadata := map[string]string{
		"INGOT_PROVIDER_ID": in.ProviderID, "INGOT_INSTANCE_ID": in.InstanceID, "INGOT_HOSTNAME": in.Hostname,
	}
	if in.FailureDomain != "" {
		metadata["INGOT_FAILURE_DOMAIN"] = in.FailureDomain
	}
	return ignition.Config(userData, ignition.Additions{Hostname: in.Hostname, Metadata: metadata, Script: seed.VendorData})
}
