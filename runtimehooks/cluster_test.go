// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// A Cluster is decoded in its own version, or rejected.
func TestHubCluster(t *testing.T) {
	const v1beta1 = `"apiVersion":"cluster.x-k8s.io/v1beta1","kind":"Cluster"`
	const v1beta2 = `"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster"`
	const oldSpec = `"spec":{"infrastructureRef":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotCluster","name":"c"},"topology":{"class":"k","version":"v1.36.1"}}`
	const newSpec = `"spec":{"infrastructureRef":{"apiGroup":"infrastructure.cluster.x-k8s.io","kind":"IngotCluster","name":"c"},"topology":{"classRef":{"name":"k"},"version":"v1.36.1"}}`
	for name, tc := range map[string]struct{ cluster, message string }{
		"v1beta1":                           {`{` + v1beta1 + `,` + oldSpec + `}`, ""},
		"v1beta2":                           {`{` + v1beta2 + `,` + newSpec + `}`, ""},
		"v1beta1 without apiVersion":        {`{` + oldSpec + `}`, ""},
		"v1beta2 without apiVersion":        {`{` + newSpec + `}`, ""},
		"a later version":                   {`{"apiVersion":"cluster.x-k8s.io/v1","kind":"Cluster",` + newSpec + `}`, unknownVersion},
		"an earlier version":                {`{"apiVersion":"cluster.x-k8s.io/v1alpha4","kind":"Cluster",` + oldSpec + `}`, unknownVersion},
		"another group":                     {`{"apiVersion":"example.com/v1beta2","kind":"Cluster",` + newSpec + `}`, unknownVersion},
		"another kind":                      {`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine",` + newSpec + `}`, notCluster},
		"no apiVersion and no class":        {`{"metadata":{"name":"c"}}`, noVersion},
		"v1beta1 fields in v1beta2":         {`{` + v1beta2 + `,` + oldSpec + `}`, "cluster.spec.infrastructureRef.apiVersion, cluster.spec.topology.class cannot be decoded, because the Cluster has version cluster.x-k8s.io/v1beta2"},
		"v1beta2 fields in v1beta1":         {`{` + v1beta1 + `,` + newSpec + `}`, "cluster.spec.infrastructureRef.apiGroup, cluster.spec.topology.classRef cannot be decoded, because the Cluster has version cluster.x-k8s.io/v1beta1"},
		"a reference that is not converted": {`{` + v1beta1 + `,"spec":{"infrastructureRef":{"apiVersion":"a/b/c","kind":"IngotCluster"}}}`, notConverted},
		"no cluster":                        {``, noCluster},
		"null":                              {`null`, noCluster},
		"a list":                            {`[]`, notOfForm},
		"a spec of another form":            {`{` + v1beta1 + `,"spec":{"paused":"secret","topology":{"class":"k"}}}`, notOfForm},
	} {
		t.Run(name, func(t *testing.T) {
			data, message := hubCluster(t.Context(), json.RawMessage(tc.cluster))
			if diff := cmp.Diff(tc.message, message); diff != "" {
				t.Fatalf("message (-want +got):\n%s", diff)
			}
			if message != "" {
				return
			}
			cluster := clusterv1.Cluster{}
			check(t, json.Unmarshal(data, &cluster))
			if ref := cluster.Spec.InfrastructureRef; ref.APIGroup != "infrastructure.cluster.x-k8s.io" || cluster.Spec.Topology.ClassRef.Name != "k" {
				t.Errorf("read as %s", data)
			}
		})
	}
}
