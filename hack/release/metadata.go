// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"fmt"
	"strings"

	"golang.org/x/mod/semver"
	"sigs.k8s.io/yaml"
)

// metadata contains the fields of clusterctl's metadata.yaml that a version is checked against
// (K14).
type metadata struct {
	APIVersion    string `json:"apiVersion"`
	Kind          string `json:"kind"`
	ReleaseSeries []struct {
		Major    int    `json:"major"`
		Minor    int    `json:"minor"`
		Contract string `json:"contract"`
	} `json:"releaseSeries"`
}

// metadataAPIVersion is the only version that clusterctl supports.
const metadataAPIVersion = "clusterctl.cluster.x-k8s.io/v1alpha3"

// checkVersion returns why a version cannot be released, as an error. clusterctl requires
// directory names that are semantic versions (K13) of a series in metadata.yaml. Build metadata
// ("+…") is not valid in an image tag.
func checkVersion(version string, data []byte) error {
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%w: %q is not a semantic version such as v0.1.0 or v0.2.0-rc.1", ErrVersion, version)
	}
	var m metadata
	if err := yaml.UnmarshalStrict(data, &m); err != nil {
		return fmt.Errorf("metadata.yaml: %w", err)
	}
	if m.APIVersion != metadataAPIVersion || m.Kind != "Metadata" {
		return fmt.Errorf("metadata.yaml: %s %s is not %s Metadata", m.APIVersion, m.Kind, metadataAPIVersion)
	}
	series := semver.MajorMinor(version)
	var known []string
	for _, s := range m.ReleaseSeries {
		name := fmt.Sprintf("v%d.%d", s.Major, s.Minor)
		if name == series {
			return nil
		}
		known = append(known, name)
	}
	return fmt.Errorf("%w: metadata.yaml has no release series for %s, only %s: add one with its contract",
		ErrVersion, version, strings.Join(known, ", "))
}
