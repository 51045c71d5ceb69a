// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"
	"fmt"

	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capierrors "sigs.k8s.io/cluster-api/api/deprecated/errors"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/ingot-metal/ingot/api/v1beta1"
	"github.com/ingot-metal/ingot/api/v1beta2"
)

// Machine returns the converter of IngotMachine.
func Machine() New {
	return conversion.NewHubSpokeConverter(&v1beta2.IngotMachine{},
		conversion.NewSpokeConverter(&v1beta1.IngotMachine{}, machineFromHub, machineToHub))
}

// MachineTemplate returns the converter of IngotMachineTemplate.
func MachineTemplate() New {
	return conversion.NewHubSpokeConverter(&v1beta2.IngotMachineTemplate{},
		conversion.NewSpokeConverter(&v1beta1.IngotMachineTemplate{}, machineTemplateFromHub, machineTemplateToHub))
}

func machineToHub(_ context.Context, src *v1beta1.IngotMachine, dst *v1beta2.IngotMachine) error {
	restored := &v1beta2.IngotMachine{}
	ok, err := conversionutil.UnmarshalData(src, restored)
	if err != nil {
		return fmt.Errorf("read the conversion data of IngotMachine %s/%s: %w", src.Namespace, src.Name, err)
	}
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec = machineSpecToHub(src.Spec)
	status := &src.Status
	clusterv1.Convert_bool_To_Pointer_bool(status.Ready, ok, restored.Status.Initialization.Provisioned,
		&dst.Status.Initialization.Provisioned)
	if status.Addresses != nil {
		dst.Status.Addresses = make([]clusterv1.MachineAddress, 0, len(status.Addresses))
	}
	for _, a := range status.Addresses {
		dst.Status.Addresses = append(dst.Status.Addresses,
			clusterv1.MachineAddress{Type: clusterv1.MachineAddressType(a.Type), Address: a.Address})
	}
	dst.Status.ObservedGeneration = status.ObservedGeneration
	dst.Status.FailureDomain = status.FailureDomain
	dst.Status.HostRef = (*v1beta2.LocalReference)(status.HostRef)
	if status.V1Beta2 != nil {
		dst.Status.Conditions = status.V1Beta2.Conditions
	}
	if deprecated := deprecatedToHub(status.Conditions, (*string)(status.FailureReason), status.FailureMessage); deprecated != nil {
		dst.Status.Deprecated = &v1beta2.IngotMachineDeprecatedStatus{V1Beta1: deprecated}
	}
	return nil
}

func machineFromHub(_ context.Context, src *v1beta2.IngotMachine, dst *v1beta1.IngotMachine) error {
	dst.ObjectMeta = *src.ObjectMeta.DeepCopy()
	dst.Spec = machineSpecFromHub(src.Spec)
	if provisioned := src.Status.Initialization.Provisioned; provisioned != nil {
		dst.Status.Ready = *provisioned
	}
	if src.Status.Addresses != nil {
		dst.Status.Addresses = make([]clusterv1beta1.MachineAddress, 0, len(src.Status.Addresses))
	}
	for _, a := range src.Status.Addresses {
		dst.Status.Addresses = append(dst.Status.Addresses,
			clusterv1beta1.MachineAddress{Type: clusterv1beta1.MachineAddressType(a.Type), Address: a.Address})
	}
	dst.Status.ObservedGeneration = src.Status.ObservedGeneration
	dst.Status.FailureDomain = src.Status.FailureDomain
	dst.Status.HostRef = (*v1beta1.LocalReference)(src.Status.HostRef)
	if src.Status.Conditions != nil {
		dst.Status.V1Beta2 = &v1beta1.IngotMachineV1Beta2Status{Conditions: src.Status.Conditions}
	}
	if src.Status.Deprecated != nil && src.Status.Deprecated.V1Beta1 != nil {
		deprecated := src.Status.Deprecated.V1Beta1
		dst.Status.Conditions = conditionsFromHub(deprecated.Conditions)
		dst.Status.FailureReason = (*capierrors.MachineStatusError)(deprecated.FailureReason)
		dst.Status.FailureMessage = deprecated.FailureMessage
	}
	return storeHub(src, dst)
}

func machineTemplateToHub(_ context.Context, src *v1beta1.IngotMachineTemplate, dst *v1beta2.IngotMachineTemplate) error {
	if _, err := conversionutil.UnmarshalData(src, &v1beta2.IngotMachineTemplate{}); err != nil {
		return fmt.Errorf("read the conversion data of IngotMachineTemplate %s/%s: %w", src.Namespace, src.Name, err)
	}
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template.ObjectMeta = objectMetaToHub(src.Spec.Template.ObjectMeta)
	dst.Spec.Template.Spec = machineSpecToHub(src.Spec.Template.Spec)
	dst.Status.ObservedGeneration = src.Status.ObservedGeneration
	dst.Status.Capacity = src.Status.Capacity
	dst.Status.NodeInfo = v1beta2.NodeInfo(src.Status.NodeInfo)
	if src.Status.V1Beta2 != nil {
		dst.Status.Conditions = src.Status.V1Beta2.Conditions
	}
	if src.Status.Conditions != nil {
		dst.SetV1Beta1Conditions(conditionsToHub(src.Status.Conditions))
	}
	return nil
}

// machineTemplateFromHub stores no conversion data, because the spoke has all fields of the hub.
func machineTemplateFromHub(_ context.Context, src *v1beta2.IngotMachineTemplate, dst *v1beta1.IngotMachineTemplate) error {
	dst.ObjectMeta = src.ObjectMeta
	dst.Spec.Template.ObjectMeta = objectMetaFromHub(src.Spec.Template.ObjectMeta)
	dst.Spec.Template.Spec = machineSpecFromHub(src.Spec.Template.Spec)
	dst.Status.ObservedGeneration = src.Status.ObservedGeneration
	dst.Status.Capacity = src.Status.Capacity
	dst.Status.NodeInfo = v1beta1.NodeInfo(src.Status.NodeInfo)
	if src.Status.Conditions != nil {
		dst.Status.V1Beta2 = &v1beta1.IngotMachineTemplateV1Beta2Status{Conditions: src.Status.Conditions}
	}
	dst.Status.Conditions = conditionsFromHub(src.GetV1Beta1Conditions())
	return nil
}

func machineSpecToHub(in v1beta1.IngotMachineSpec) v1beta2.IngotMachineSpec {
	out := v1beta2.IngotMachineSpec{
		Image: v1beta2.Image{
			URL: in.Image.URL, Checksum: in.Image.Checksum, Format: v1beta2.ImageFormat(in.Image.Format),
		},
		FailureDomain:   in.FailureDomain,
		Cleaning:        v1beta2.CleaningMode(in.Cleaning),
		Hostname:        in.Hostname,
		RootDeviceHints: (*v1beta2.RootDeviceHints)(in.RootDeviceHints),
		ImageRef:        (*v1beta2.ImageReference)(in.ImageRef),
		NetworkData:     in.NetworkData,
		Live:            in.Live,
		SoftwareRAID:    in.SoftwareRAID,
	}
	if in.ProviderID != nil {
		out.ProviderID = *in.ProviderID
	}
	if s := in.HostSelector; s != nil {
		out.HostSelector = &v1beta2.HostSelector{
			MatchLabels: s.MatchLabels, MatchExpressions: s.MatchExpressions, Architecture: s.Architecture,
			Minimum: (*v1beta2.HardwareMinimum)(s.Minimum),
		}
	}
	return out
}

func machineSpecFromHub(in v1beta2.IngotMachineSpec) v1beta1.IngotMachineSpec {
	out := v1beta1.IngotMachineSpec{
		Image: v1beta1.Image{
			URL: in.Image.URL, Checksum: in.Image.Checksum, Format: v1beta1.ImageFormat(in.Image.Format),
		},
		FailureDomain:   in.FailureDomain,
		Cleaning:        v1beta1.CleaningMode(in.Cleaning),
		Hostname:        in.Hostname,
		RootDeviceHints: (*v1beta1.RootDeviceHints)(in.RootDeviceHints),
		ImageRef:        (*v1beta1.ImageReference)(in.ImageRef),
		NetworkData:     in.NetworkData,
		Live:            in.Live,
		SoftwareRAID:    in.SoftwareRAID,
	}
	if in.ProviderID != "" {
		out.ProviderID = &in.ProviderID
	}
	if s := in.HostSelector; s != nil {
		out.HostSelector = &v1beta1.HostSelector{
			MatchLabels: s.MatchLabels, MatchExpressions: s.MatchExpressions, Architecture: s.Architecture,
			Minimum: (*v1beta1.HardwareMinimum)(s.Minimum),
		}
	}
	return out
}
