// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	"sigs.k8s.io/cluster-api/core/webhooks/conversion"
)

// Errors about the Cluster in a request. A Cluster that is decoded in the wrong version loses its
// infrastructureRef and class, and the handlers would treat it as another provider's Cluster.
const (
	noCluster      = "the request has no cluster"
	notCluster     = "cluster.kind must be Cluster"
	unknownVersion = "cluster.apiVersion must be cluster.x-k8s.io/v1beta1 or cluster.x-k8s.io/v1beta2"
	noVersion      = "cluster.apiVersion is missing, and cluster.spec.topology has neither class (v1beta1) nor classRef (v1beta2)"
	notConverted   = "cluster cannot be converted from cluster.x-k8s.io/v1beta1; check infrastructureRef.apiVersion and controlPlaneRef.apiVersion"
)

// hasCluster reports whether the requests of a hook contain a Cluster.
func hasCluster(catalog *runtimecatalog.Catalog, hook runtimecatalog.GroupVersionHook) (bool, error) {
	request, err := catalog.NewRequest(hook)
	if err != nil {
		return false, fmt.Errorf("create a request of hook %s: %w", hook.Hook, err)
	}
	field, ok := reflect.TypeOf(request).Elem().FieldByName("Cluster")
	return ok && field.Type == reflect.TypeFor[clusterv1.Cluster](), nil
}

// clusterHead contains the fields that differ between the versions of a Cluster.
type clusterHead struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		InfrastructureRef, ControlPlaneRef map[string]json.RawMessage
		Topology                           map[string]json.RawMessage
	} `json:"spec"`
}

// hubCluster returns the Cluster of a request as v1beta2. Cluster API up to 1.12 sends v1beta1
// without apiVersion and kind; later versions send v1beta2. The Runtime SDK documents v1beta1 with
// both. For an invalid Cluster it returns a message, which is stable for the same fault (R22).
func hubCluster(ctx context.Context, data json.RawMessage) (hub json.RawMessage, message string) {
	if len(data) == 0 || string(data) == "null" {
		return nil, noCluster
	}
	head := clusterHead{}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, notOfForm
	}
	if head.Kind != "" && head.Kind != "Cluster" {
		return nil, notCluster
	}
	version, message := head.version()
	if message != "" || version == clusterv1.GroupVersion.String() {
		return data, message
	}
	old, converted := &clusterv1beta1.Cluster{}, &clusterv1.Cluster{}
	if err := json.Unmarshal(data, old); err != nil {
		return nil, notOfForm
	}
	if err := conversion.ConvertClusterV1Beta1ToHub(ctx, old, converted); err != nil {
		return nil, notConverted
	}
	converted.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
	hub, err := json.Marshal(converted)
	if err != nil {
		return nil, notConverted
	}
	return hub, ""
}

// version returns the API version of a Cluster: its apiVersion or, without one, the version whose
// fields it has. It rejects a Cluster with fields of the other version, which would be lost.
func (h clusterHead) version() (version, message string) {
	v1beta1, v1beta2 := clusterv1beta1.GroupVersion.String(), clusterv1.GroupVersion.String()
	fields := map[string][]string{}
	for version, names := range map[string][3]string{v1beta1: {"apiVersion", "apiVersion", "class"}, v1beta2: {"apiGroup", "apiGroup", "classRef"}} {
		for at, in := range []struct {
			path   string
			fields map[string]json.RawMessage
		}{{"infrastructureRef", h.Spec.InfrastructureRef}, {"controlPlaneRef", h.Spec.ControlPlaneRef}, {"topology", h.Spec.Topology}} {
			if _, ok := in.fields[names[at]]; ok {
				fields[version] = append(fields[version], "cluster.spec."+in.path+"."+names[at])
			}
		}
	}
	other := map[string]string{v1beta1: v1beta2, v1beta2: v1beta1}
	version = h.APIVersion
	if version == "" {
		switch {
		case len(fields[v1beta1]) > 0:
			version = v1beta1
		case len(fields[v1beta2]) > 0:
			version = v1beta2
		default:
			return "", noVersion
		}
	}
	if other[version] == "" {
		return "", unknownVersion
	}
	if wrong := fields[other[version]]; len(wrong) > 0 {
		return "", fmt.Sprintf("%s cannot be decoded, because the Cluster has version %s", strings.Join(wrong, ", "), version)
	}
	return version, ""
}
