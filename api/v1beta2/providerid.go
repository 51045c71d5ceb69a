// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"fmt"
	"strings"
)

// ProviderID identifies one installation of a host: "ingot://<namespace>/<host>/<instanceID>". The
// last segment is globally unique, because the cluster autoscaler compares only last segments.
type ProviderID struct {
	Namespace  string
	Host       string
	InstanceID string
}

// String returns the provider ID in the form that Cluster API and the kubelet use.
func (p ProviderID) String() string {
	return ProviderIDScheme + p.Namespace + "/" + p.Host + "/" + p.InstanceID
}

// ParseProviderID parses the form that String returns.
func ParseProviderID(s string) (ProviderID, error) {
	rest, ok := strings.CutPrefix(s, ProviderIDScheme)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return ProviderID{}, fmt.Errorf("provider ID %q is not %s<namespace>/<host>/<instanceID>", s, ProviderIDScheme)
	}
	return ProviderID{Namespace: parts[0], Host: parts[1], InstanceID: parts[2]}, nil
}
