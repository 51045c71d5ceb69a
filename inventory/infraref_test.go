// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestRefersTo(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*clusterv1.Machine)
		want   bool
	}{
		"it does":           {func(*clusterv1.Machine) {}, true},
		"another name":      {func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Name = "other" }, false},
		"another kind":      {func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Kind = "IngotHost" }, false},
		"another group":     {func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.APIGroup = "example.com" }, false},
		"nothing":           {func(m *clusterv1.Machine) { m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{} }, false},
		"another namespace": {func(m *clusterv1.Machine) { m.Namespace = "b" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			above := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "cp"}}
			above.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: "cp-1"}
			tc.change(above)
			if got := RefersToMachine(above, &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "cp-1"}}); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestFindOwner(t *testing.T) {
	machine := schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"}
	for name, tc := range map[string]struct {
		refs []metav1.OwnerReference
		want string
	}{
		"none":                 {nil, ""},
		"the kind":             {[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m"}}, "m"},
		"an old version of it": {[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta1", Kind: "Machine", Name: "m"}}, "m"},
		"another group's":      {[]metav1.OwnerReference{{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "m"}}, ""},
		"another kind":         {[]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Name: "m"}}, ""},
		"no group":             {[]metav1.OwnerReference{{APIVersion: "v1", Kind: "Machine", Name: "m"}}, ""},
		"nonsense":             {[]metav1.OwnerReference{{APIVersion: "a/b/c", Kind: "Machine", Name: "m"}}, ""},
		"behind another group's": {[]metav1.OwnerReference{
			{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "other"}, {APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m"},
		}, "m"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if ref := FindOwner(&metav1.ObjectMeta{OwnerReferences: tc.refs}, machine); ref != nil {
				got = ref.Name
			}
			if got != tc.want {
				t.Errorf("owner %q, want %q", got, tc.want)
			}
		})
	}
}
