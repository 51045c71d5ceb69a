// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// RefersToMachine reports whether the infrastructureRef of a Machine names the IngotMachine. The owner
// reference of the IngotMachine does not suffice: its author could name another tenant's Machine
// and get that Machine's name and bootstrap data. RefersToMachine ignores the UID of the owner, which
// changes in a restore until Cluster API has corrected it.
func RefersToMachine(above *clusterv1.Machine, machine *infrav1.IngotMachine) bool {
	ref := above.Spec.InfrastructureRef
	return above.Namespace == machine.Namespace && ref.APIGroup == infrav1.GroupVersion.Group && ref.Kind == "IngotMachine" && ref.Name == machine.Name
}

// FindOwner returns a copy of the first owner of a kind, of any API version. Nil: there is none.
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
