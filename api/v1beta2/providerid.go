// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"fmt"
	"strings"
)

// ProviderID names one life of one host: "ingot://<namespace>/<host>/<instanceID>".
// The last segment alone is unique for ever (the cluster autoscaler compares last
// segments).
type ProviderID struct {
	Namespace  string
	Host       string
	InstanceID string
}

// String writes the provider ID as Cluster API and the kubelet see it.
func (p ProviderID) String() string {
	return ProviderIDScheme + p.Namespace + "/" + p.Host + "/" + p.InstanceID
}

// ParseProviderID reads what String writes.
func ParseProviderID(s string) (ProviderID, error) {
	rest, ok := strings.CutPrefix(s, ProviderIDScheme)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return ProviderID{}, fmt.Errorf("provider ID %q is not %s<namespace>/<host>/<instanceID>", s, ProviderIDScheme)
	}
	return ProviderID{Namespace: parts[0], Host: parts[1], InstanceID: parts[2]}, nil
}
