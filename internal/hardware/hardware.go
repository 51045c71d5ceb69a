// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// New returns an empty IngotHardware for the host. InUseFinalizer keeps it until the host is forgotten
// (I23).
func New(host *infrav1.IngotHost, scheme *runtime.Scheme) (*infrav1.IngotHardware, error) {
	object := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{
		Namespace: host.Namespace, Name: host.Name, Finalizers: []string{infrav1.InUseFinalizer},
	}}
	if err := controllerutil.SetControllerReference(host, object, scheme); err != nil {
		return nil, fmt.Errorf("set owner of hardware of host %s: %w", host.Name, err)
	}
	return object, nil
}

// IsOwner reports whether the host is an owner of the object, by the current API version.
func IsOwner(host *infrav1.IngotHost, object metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.UID == host.UID && owner.APIVersion == infrav1.GroupVersion.String()
	})
}
