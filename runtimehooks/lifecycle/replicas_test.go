// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"maps"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Cluster API itself gives a MachineDeployment as many machines as Ingot counts, where the
// topology leaves it open: its defaulting is no part of a contract.
func TestReplicasAreClusterAPIs(t *testing.T) {
	const least, most = clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation
	for name, tc := range map[string]struct {
		asked           *int32
		topology, class map[string]string
	}{
		"as asked":                      {asked: new(int32(0)), topology: map[string]string{least: "4", most: "9"}},
		"nothing is said":               {},
		"both sizes":                    {topology: map[string]string{least: "4", most: "9"}},
		"none to begin with":            {topology: map[string]string{least: "0", most: "9"}},
		"the least size alone":          {topology: map[string]string{least: "4"}},
		"the greatest size alone":       {topology: map[string]string{most: "9"}},
		"sizes of the class":            {class: map[string]string{least: "4", most: "9"}},
		"one of each":                   {topology: map[string]string{least: "4"}, class: map[string]string{most: "9"}},
		"the topology before the class": {topology: map[string]string{least: "2"}, class: map[string]string{least: "4", most: "9"}},
	} {
		t.Run(name, func(t *testing.T) {
			made := &clusterv1.MachineDeployment{}
			made.Annotations = maps.Clone(tc.class)
			if made.Annotations == nil {
				made.Annotations = map[string]string{}
			}
			maps.Copy(made.Annotations, tc.topology)
			made.Spec.Replicas = tc.asked
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}})
			if err := (&capiadmission.MachineDeployment{}).Default(ctx, made); err != nil {
				t.Fatal(err)
			}
			if got := replicas(tc.asked, tc.topology, tc.class); got != int(*made.Spec.Replicas) {
				t.Errorf("%d machines are counted, Cluster API makes %d", got, *made.Spec.Replicas)
			}
		})
	}
}
