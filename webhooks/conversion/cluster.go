// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/ingot-metal/ingot/api/v1beta1"
	"github.com/ingot-metal/ingot/api/v1beta2"
)

// New returns a converter of one kind for a scheme that contains both versions.
type New func(*runtime.Scheme) (conversion.Converter, error)

// Cluster returns the converter of IngotCluster.
func Cluster() New {
	return conversion.NewHubSpokeConverter(&v1beta2.IngotCluster{},
		conversion.NewSpokeConverter(&v1beta1.IngotCluster{}, clusterFromHub, clusterToHub))
}

// ClusterTemplate returns the converter of IngotClusterTemplate.
func ClusterTemplate() New {
	return conversion.NewHubSpokeConverter(&v1beta2.IngotClusterTemplate{},
		conversion.NewSpokeConverter(&v1beta1.IngotClusterTemplate{}, clusterTemplateFromHub, clusterTemplateToHub))
}

func clusterToHub(_ context.Context, src *v1beta1.IngotCluster, dst *v1beta2.IngotCluster) error {
	restored := &v1beta2.IngotCluster{}
	ok, err := conversionutil.UnmarshalData(src, restored)
	if err != nil {
		return fmt.Errorf("read the conversion data of IngotCluster %s/%s: %w", src.Namespace, src.Name, err)
	}
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec = clusterSpecToHub(src.Spec)
	status := &src.Status
	clusterv1.Convert_bool_To_Pointer_bool(status.Ready, ok, restored.Status.Initialization.Provisioned,
		&dst.Status.Initialization.Provisioned)
	dst.Status.ObservedGeneration = status.ObservedGeneration
	dst.Status.FailureDomains = failureDomainsToHub(status.FailureDomains, restored.Status.FailureDomains)
	if status.V1Beta2 != nil {
		dst.Status.Conditions = status.V1Beta2.Conditions
	}
	if deprecated := deprecatedToHub(status.Conditions, status.FailureReason, status.FailureMessage); deprecated != nil {
		dst.Status.Deprecated = &v1beta2.IngotClusterDeprecatedStatus{V1Beta1: deprecated}
	}
	return nil
}

func clusterFromHub(_ context.Context, src *v1beta2.IngotCluster, dst *v1beta1.IngotCluster) error {
	dst.ObjectMeta = *src.ObjectMeta.DeepCopy()
	dst.Spec = clusterSpecFromHub(src.Spec)
	if provisioned := src.Status.Initialization.Provisioned; provisioned != nil {
		dst.Status.Ready = *provisioned
	}
	dst.Status.ObservedGeneration = src.Status.ObservedGeneration
	dst.Status.FailureDomains = failureDomainsFromHub(src.Status.FailureDomains)
	if src.Status.Conditions != nil {
		dst.Status.V1Beta2 = &v1beta1.IngotClusterV1Beta2Status{Conditions: src.Status.Conditions}
	}
	if src.Status.Deprecated != nil && src.Status.Deprecated.V1Beta1 != nil {
		deprecated := src.Status.Deprecated.V1Beta1
		dst.Status.Conditions = conditionsFromHub(deprecated.Conditions)
		dst.Status.FailureReason = deprecated.FailureReason
		dst.Status.FailureMessage = deprecated.FailureMessage
	}
	return storeHub(src, dst)
}

func clusterTemplateToHub(_ context.Context, src *v1beta1.IngotClusterTemplate, dst *v1beta2.IngotClusterTemplate) error {
	if _, err := conversionutil.UnmarshalData(src, &v1beta2.IngotClusterTemplate{}); err != nil {
		return fmt.Errorf("read the conversion data of IngotClusterTemplate %s/%s: %w", src.Namespace, src.Name, err)
	}
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template.ObjectMeta = objectMetaToHub(src.Spec.Template.ObjectMeta)
	dst.Spec.Template.Spec = clusterSpecToHub(src.Spec.Template.Spec)
	return nil
}

// clusterTemplateFromHub stores no conversion data, because the spoke has all fields of the hub.
func clusterTemplateFromHub(_ context.Context, src *v1beta2.IngotClusterTemplate, dst *v1beta1.IngotClusterTemplate) error {
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template.ObjectMeta = objectMetaFromHub(src.Spec.Template.ObjectMeta)
	dst.Spec.Template.Spec = clusterSpecFromHub(src.Spec.Template.Spec)
	return nil
}

func clusterSpecToHub(in v1beta1.IngotClusterSpec) v1beta2.IngotClusterSpec {
	return v1beta2.IngotClusterSpec{
		BootTrust:            v1beta2.BootTrust(in.BootTrust),
		ControlPlaneEndpoint: v1beta2.APIEndpoint(in.ControlPlaneEndpoint),
		HostSelector:         in.HostSelector,
		ControlPlaneSelector: in.ControlPlaneSelector,
		FailureDomainLabel:   in.FailureDomainLabel,
		NodeLabels:           in.NodeLabels,
	}
}

func clusterSpecFromHub(in v1beta2.IngotClusterSpec) v1beta1.IngotClusterSpec {
	return v1beta1.IngotClusterSpec{
		BootTrust:            v1beta1.BootTrust(in.BootTrust),
		ControlPlaneEndpoint: v1beta1.APIEndpoint(in.ControlPlaneEndpoint),
		HostSelector:         in.HostSelector,
		ControlPlaneSelector: in.ControlPlaneSelector,
		FailureDomainLabel:   in.FailureDomainLabel,
		NodeLabels:           in.NodeLabels,
	}
}
