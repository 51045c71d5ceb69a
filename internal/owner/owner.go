// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package owner

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Find returns the first owner of a kind; nil: there is none. It is a copy.
func Find(object metav1.Object, kind schema.GroupKind) *metav1.OwnerReference {
	for _, ref := range object.GetOwnerReferences() {
		if Is(ref, kind) {
			return &ref
		}
	}
	return nil
}

// Is says whether an owner is of a kind.
func Is(ref metav1.OwnerReference, kind schema.GroupKind) bool {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && version.Group == kind.Group && ref.Kind == kind.Kind
}
