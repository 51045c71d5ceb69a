// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conversion_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	conversionutil "sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/randfill"

	"github.com/ingot-metal/ingot/api/v1beta1"
	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/conversion"
)

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, v1beta2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

func TestRoundTrips(t *testing.T) {
	scheme := newScheme(t)
	funcs := []fuzzer.FuzzerFuncs{schemaFuzzers}
	parallel(t, "IngotCluster", conversionutil.SpokeConverterFuzzTestFunc(
		conversionutil.SpokeConverterFuzzTestFuncInput[*v1beta2.IngotCluster, *v1beta1.IngotCluster]{
			Scheme: scheme, FuzzerFuncs: funcs,
			ConvertHubToSpokeFunc: conversion.ClusterFromHub, ConvertSpokeToHubFunc: conversion.ClusterToHub,
		}))
	parallel(t, "IngotClusterTemplate", conversionutil.SpokeConverterFuzzTestFunc(
		conversionutil.SpokeConverterFuzzTestFuncInput[*v1beta2.IngotClusterTemplate, *v1beta1.IngotClusterTemplate]{
			Scheme: scheme, FuzzerFuncs: funcs,
			ConvertHubToSpokeFunc: conversion.ClusterTemplateFromHub, ConvertSpokeToHubFunc: conversion.ClusterTemplateToHub,
		}))
	parallel(t, "IngotMachine", conversionutil.SpokeConverterFuzzTestFunc(
		conversionutil.SpokeConverterFuzzTestFuncInput[*v1beta2.IngotMachine, *v1beta1.IngotMachine]{
			Scheme: scheme, FuzzerFuncs: funcs,
			ConvertHubToSpokeFunc: conversion.MachineFromHub, ConvertSpokeToHubFunc: conversion.MachineToHub,
		}))
	parallel(t, "IngotMachineTemplate", conversionutil.SpokeConverterFuzzTestFunc(
		conversionutil.SpokeConverterFuzzTestFuncInput[*v1beta2.IngotMachineTemplate, *v1beta1.IngotMachineTemplate]{
			Scheme: scheme, FuzzerFuncs: funcs,
			ConvertHubToSpokeFunc: conversion.MachineTemplateFromHub, ConvertSpokeToHubFunc: conversion.MachineTemplateToHub,
		}))
}

func parallel(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

// schemaFuzzers limits the fuzzer to values that the schema allows and that differ from unset.
func schemaFuzzers(_ runtimeserializer.CodecFactory) []any {
	return []any{
		func(in *v1beta1.IngotMachineSpec, c randfill.Continue) {
			c.FillNoCustom(in)
			if in.ProviderID != nil && *in.ProviderID == "" { // minLength 1
				in.ProviderID = nil
			}
		},
		func(in *v1beta1.IngotMachineStatus, c randfill.Continue) {
			c.FillNoCustom(in)
			if in.V1Beta2 != nil && in.V1Beta2.Conditions == nil { // an empty group is no group
				in.V1Beta2 = nil
			}
		},
		func(in *v1beta1.IngotClusterStatus, c randfill.Continue) {
			c.FillNoCustom(in)
			if in.V1Beta2 != nil && in.V1Beta2.Conditions == nil {
				in.V1Beta2 = nil
			}
		},
		func(in *v1beta1.IngotMachineTemplateStatus, c randfill.Continue) {
			c.FillNoCustom(in)
			if in.V1Beta2 != nil && in.V1Beta2.Conditions == nil {
				in.V1Beta2 = nil
			}
		},
		func(in *v1beta2.IngotMachineTemplateStatus, c randfill.Continue) {
			c.FillNoCustom(in)
			if d := in.Deprecated; d != nil && (d.V1Beta1 == nil || d.V1Beta1.Conditions == nil) {
				in.Deprecated = nil
			}
		},
		func(in *v1beta2.IngotMachineStatus, c randfill.Continue) {
			c.FillNoCustom(in)
			if d := in.Deprecated; d != nil && isEmpty(d.V1Beta1) {
				in.Deprecated = nil
			}
		},
		func(in *v1beta2.IngotClusterStatus, c randfill.Continue) {
			c.FillNoCustom(in)
			if d := in.Deprecated; d != nil && isEmpty(d.V1Beta1) {
				in.Deprecated = nil
			}
			in.FailureDomains = slices.DeleteFunc(in.FailureDomains, repeated()) // a list keyed by name
		},
	}
}

func isEmpty(in *v1beta2.IngotV1Beta1DeprecatedStatus) bool {
	return in == nil || in.Conditions == nil && in.FailureReason == nil && in.FailureMessage == nil
}

func repeated() func(clusterv1.FailureDomain) bool {
	seen := map[string]bool{}
	return func(domain clusterv1.FailureDomain) bool {
		defer func() { seen[domain.Name] = true }()
		return seen[domain.Name]
	}
}
