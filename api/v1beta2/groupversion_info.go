// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&IngotCluster{}, &IngotClusterList{},
		&IngotClusterTemplate{}, &IngotClusterTemplateList{},
		&IngotMachine{}, &IngotMachineList{},
		&IngotMachineTemplate{}, &IngotMachineTemplateList{},
		&IngotHost{}, &IngotHostList{},
		&IngotHardware{}, &IngotHardwareList{},
		&IngotNetwork{}, &IngotNetworkList{},
		&IngotReservation{}, &IngotReservationList{},
		&IngotImage{}, &IngotImageList{},
		&IngotRemediation{}, &IngotRemediationList{},
		&IngotRemediationTemplate{}, &IngotRemediationTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
