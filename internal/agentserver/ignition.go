// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"github.com/ingot-metal/ingot/internal/ignition"
)

// RenderIgnition returns the Ignition configuration of a bootstrap Secret with additions: the host
// name, the instance metadata (in ignition.MetadataFile), and the script that reports the first
// boot. It returns ignition.ErrConfig, or the error of RenderSeed.
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
