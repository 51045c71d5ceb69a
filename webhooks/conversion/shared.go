// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// storeHub writes the whole hub object into the spoke's annotation, for the conversion back.
func storeHub(hub, spoke metav1.Object) error {
	if err := conversionutil.MarshalData(hub, spoke); err != nil {
		return fmt.Errorf("write the conversion data of %s/%s: %w", hub.GetNamespace(), hub.GetName(), err)
	}
	return nil
}

// failureDomainsToHub converts the map of contract v1beta1 to the list of v1beta2 (C09): first the
// names of restored in their order, then the new names, sorted.
func failureDomainsToHub(in clusterv1beta1.FailureDomains, restored []clusterv1.FailureDomain) []clusterv1.FailureDomain {
	if in == nil {
		return nil
	}
	out := make([]clusterv1.FailureDomain, 0, len(in))
	known := map[string]bool{}
	add := func(name string, before *bool) {
		if _, ok := in[name]; !ok || known[name] {
			return
		}
		domain := clusterv1.FailureDomain{Name: name, Attributes: in[name].Attributes}
		clusterv1.Convert_bool_To_Pointer_bool(in[name].ControlPlane, before != nil, before, &domain.ControlPlane)
		out = append(out, domain)
		known[name] = true
	}
	for _, domain := range restored {
		add(domain.Name, domain.ControlPlane)
	}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		add(name, nil)
	}
	return out
}

func failureDomainsFromHub(in []clusterv1.FailureDomain) clusterv1beta1.FailureDomains {
	if in == nil {
		return nil
	}
	out := make(clusterv1beta1.FailureDomains, len(in))
	for _, domain := range in {
		out[domain.Name] = clusterv1beta1.FailureDomainSpec{
			ControlPlane: domain.ControlPlane != nil && *domain.ControlPlane,
			Attributes:   domain.Attributes,
		}
	}
	return out
}

// deprecatedToHub returns the status fields of contract v1beta1 only, or nil if they are all
// unset.
func deprecatedToHub(conditions clusterv1beta1.Conditions, reason, message *string) *v1beta2.IngotV1Beta1DeprecatedStatus {
	if conditions == nil && reason == nil && message == nil {
		return nil
	}
	return &v1beta2.IngotV1Beta1DeprecatedStatus{
		Conditions: conditionsToHub(conditions), FailureReason: reason, FailureMessage: message,
	}
}

// conditionsToHub and conditionsFromHub convert the conditions of contract v1beta1.
func conditionsToHub(in clusterv1beta1.Conditions) clusterv1.Conditions {
	if in == nil {
		return nil
	}
	out := clusterv1.Conditions{}
	clusterv1beta1.Convert_v1beta1_Conditions_To_v1beta2_Deprecated_V1Beta1_Conditions(&in, &out)
	return out
}

func conditionsFromHub(in clusterv1.Conditions) clusterv1beta1.Conditions {
	if in == nil {
		return nil
	}
	out := clusterv1beta1.Conditions{}
	clusterv1beta1.Convert_v1beta2_Deprecated_V1Beta1_Conditions_To_v1beta1_Conditions(&in, &out)
	return out
}

func objectMetaToHub(in clusterv1beta1.ObjectMeta) clusterv1.ObjectMeta {
	return clusterv1.ObjectMeta{Labels: in.Labels, Annotations: in.Annotations}
}

func objectMetaFromHub(in clusterv1.ObjectMeta) clusterv1beta1.ObjectMeta {
	return clusterv1beta1.ObjectMeta{Labels: in.Labels, Annotations: in.Annotations}
}
