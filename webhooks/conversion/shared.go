// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// keepHub writes the whole hub object into the spoke's annotation, from where
// the way back takes what the spoke could not hold.
func keepHub(hub, spoke metav1.Object) error {
	if err := conversionutil.MarshalData(hub, spoke); err != nil {
		return fmt.Errorf("write the conversion data of %s/%s: %w", hub.GetNamespace(), hub.GetName(), err)
	}
	return nil
}

// failureDomainsToHub turns the map of contract v1beta1 into the list of v1beta2
// (C09): in the order that the hub last had, new ones after it by name.
func failureDomainsToHub(in clusterv1beta1.FailureDomains, restored []clusterv1.FailureDomain) []clusterv1.FailureDomain {
	if in == nil {
		return nil
	}
	out := make([]clusterv1.FailureDomain, 0, len(in))
	known := map[string]bool{}
	add := func(name string, before *bool) {
		domain := clusterv1.FailureDomain{Name: name, Attributes: in[name].Attributes}
		clusterv1.Convert_bool_To_Pointer_bool(in[name].ControlPlane, before != nil, before, &domain.ControlPlane)
		out = append(out, domain)
		known[name] = true
	}
	for _, domain := range restored {
		if _, ok := in[domain.Name]; ok && !known[domain.Name] {
			add(domain.Name, domain.ControlPlane)
		}
	}
	restoredCount := len(out)
	for name := range in {
		if !known[name] {
			add(name, nil)
		}
	}
	slices.SortFunc(out[restoredCount:], func(a, b clusterv1.FailureDomain) int { return strings.Compare(a.Name, b.Name) })
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

// deprecatedToHub gathers what only contract v1beta1 knows; nil if there is none.
func deprecatedToHub(conditions clusterv1beta1.Conditions, reason, message *string) *v1beta2.IngotV1Beta1DeprecatedStatus {
	if conditions == nil && reason == nil && message == nil {
		return nil
	}
	return &v1beta2.IngotV1Beta1DeprecatedStatus{
		Conditions: conditionsToHub(conditions), FailureReason: reason, FailureMessage: message,
	}
}

// conditionsToHub and conditionsFromHub carry the conditions of contract v1beta1,
// which both versions of Cluster API's API have as types of their own.
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
