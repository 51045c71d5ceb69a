// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	_ "embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/token"
)

// vendorScript runs on the installed system, as cloud-init vendor-data: it
// reports the first boot and removes the secrets from the disk (I16).
//
//go:embed vendor-data.sh
var vendorScript string

// SeedInput is what a seed is made of.
type SeedInput struct {
	ProviderID    string
	InstanceID    string
	Attempt       int32
	Hostname      string
	FailureDomain string
	// Address is host:port of the agent API, Pins those of its key, Token the
	// proof of the installed system.
	Address string
	Pins    []token.Pin
	Token   string
}

// Seed is what cloud-init's NoCloud datasource reads beside the user data.
type Seed struct{ MetaData, VendorData string }

// RenderSeed writes the meta-data (cloud-init's instance-id is
// "<instanceID>-<attempt>") and the vendor-data.
func RenderSeed(in SeedInput) (Seed, error) {
	meta := map[string]string{
		"instance-id":    fmt.Sprintf("%s-%d", in.InstanceID, in.Attempt),
		"local-hostname": in.Hostname,
		"provider_id":    in.ProviderID,
	}
	if in.FailureDomain != "" {
		meta["failure_domain"] = in.FailureDomain
	}
	metaData, err := yaml.Marshal(meta)
	if err != nil {
		return Seed{}, fmt.Errorf("meta-data: %w", err)
	}
	pin, err := token.Curl(in.Pins)
	if err != nil {
		return Seed{}, err
	}
	vendor := strings.NewReplacer(
		"@URL@", quote("https://"+in.Address+agentapi.PathBooted),
		"@TOKEN@", quote(in.Token),
		"@PIN@", quote(pin),
		"@INSTANCE@", quote(in.InstanceID),
	).Replace(vendorScript)
	return Seed{MetaData: string(metaData), VendorData: vendor}, nil
}

// quote writes a word for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
