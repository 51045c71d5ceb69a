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

// vendorScript is the cloud-init vendor-data of the installed system. It reports the first boot
// and removes the secrets from the disk (I16).
//
//go:embed vendor-data.sh
var vendorScript string

// SeedInput is the input of RenderSeed.
type SeedInput struct {
	ProviderID    string
	InstanceID    string
	Attempt       int32
	Hostname      string
	FailureDomain string
	// Address is host:port of the agent API, Pins are the pins of its keys, and Token
	// authenticates the installed system.
	Address string
	Pins    []token.Pin
	Token   string
}

// Seed holds the files that cloud-init's NoCloud datasource reads in addition to the user data.
type Seed struct{ MetaData, VendorData string }

// RenderSeed returns the meta-data, whose instance-id is "<instanceID>-<attempt>", and the
// vendor-data. It fails if Pins is invalid.
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
		return Seed{}, fmt.Errorf("render meta-data: %w", err)
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

// quote quotes a word for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
