// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestFind(t *testing.T) {
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
			if ref := Find(&metav1.ObjectMeta{OwnerReferences: tc.refs}, machine); ref != nil {
				got = ref.Name
			}
			if got != tc.want {
				t.Errorf("owner %q, want %q", got, tc.want)
			}
		})
	}
}
