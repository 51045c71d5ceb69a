// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// RefersTo says whether a Machine means this IngotMachine as its infrastructure. Only then
// the one is the other's: who may create an IngotMachine writes its owner references, and
// one that names a Machine of another would get that Machine's name and bootstrap data.
// What a Machine refers to takes the right to write Machines. The UID of the owner is
// not compared: after a restore it is another, until Cluster API has corrected it.
func RefersTo(above *clusterv1.Machine, machine *infrav1.IngotMachine) bool {
	ref := above.Spec.InfrastructureRef
	return above.Namespace == machine.Namespace && ref.APIGroup == infrav1.GroupVersion.Group && ref.Kind == "IngotMachine" && ref.Name == machine.Name
}

// FindOwner returns a copy of the first owner of a kind, of whatever API version, since that
// changes with Cluster API; nil: there is none.
func FindOwner(object metav1.Object, kind schema.GroupKind) *metav1.OwnerReference {
	for _, ref := range object.GetOwnerReferences() {
		if IsOwner(ref, kind) {
			return &ref
		}
	}
	return nil
}

// IsOwner reports whether an owner is of a kind.
func IsOwner(ref metav1.OwnerReference, kind schema.GroupKind) bool {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && version.Group == kind.Group && ref.Kind == kind.Kind
}
