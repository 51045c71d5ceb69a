// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/cluster-api/util/contract"

	"github.com/ingot-metal/ingot/test/needs"
)

const caAnnotation = "cert-manager.io/inject-ca-from"

// render builds config/default as for an installation.
func render(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	set := needs.Tools(t, "kubectl")
	kubectl, err := set.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join(set.Root(), "config", "default")).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(out), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

func as[T any](t *testing.T, object *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Each definition has the name that Cluster API computes (M10, C03), the labels of its contract
// (M07) or of clusterctl move (K49), and, with two versions, a conversion webhook with a
// cert-manager CA.
func TestDefinitionsAsInstalled(t *testing.T) {
	contracts := map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}
	moved := map[string]string{"clusterctl.cluster.x-k8s.io/move-hierarchy": ""}
	newest := map[string]string{"cluster.x-k8s.io/v1beta2": "v1beta2"}
	want := map[string]map[string]string{
		"IngotCluster": contracts, "IngotClusterTemplate": contracts,
		"IngotMachine": contracts, "IngotMachineTemplate": contracts,
		"IngotHost": moved, "IngotHardware": moved, "IngotNetwork": moved, "IngotReservation": moved, "IngotImage": moved,
		// A MachineHealthCheck refers to the template, which has no owner. Machines own remediations.
		"IngotRemediation": newest, "IngotRemediationTemplate": {"cluster.x-k8s.io/v1beta2": "v1beta2", "clusterctl.cluster.x-k8s.io/move": ""},
	}
	shortNames := map[string]string{
		"IngotCluster": "ic", "IngotClusterTemplate": "ict", "IngotMachine": "im", "IngotMachineTemplate": "imt",
		"IngotHost": "ih", "IngotHardware": "ihw", "IngotNetwork": "inet", "IngotReservation": "ires", "IngotImage": "iimg",
		"IngotRemediation": "irem", "IngotRemediationTemplate": "iremt",
	}
	for _, object := range render(t) {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crd := as[apiextensionsv1.CustomResourceDefinition](t, object)
		kind := crd.Spec.Names.Kind
		labels, ok := want[kind]
		delete(want, kind)
		if !ok {
			t.Errorf("unexpected definition of %s", kind)
		}
		if name := contract.CalculateCRDName(crd.Spec.Group, kind); crd.Name != name {
			t.Errorf("%s is named %s, Cluster API computes %s", kind, crd.Name, name)
		}
		for key := range contracts {
			if crd.Labels[key] != labels[key] {
				t.Errorf("%s: label %s is %q, want %q", kind, key, crd.Labels[key], labels[key])
			}
		}
		for _, key := range []string{"clusterctl.cluster.x-k8s.io/move-hierarchy", "clusterctl.cluster.x-k8s.io/move"} {
			_, has := crd.Labels[key]
			if _, wanted := labels[key]; has != wanted {
				t.Errorf("%s: label %s: %v, want %v", kind, key, has, wanted)
			}
		}
		if !slices.Equal(crd.Spec.Names.ShortNames, []string{shortNames[kind]}) {
			t.Errorf("%s: short names %v", kind, crd.Spec.Names.ShortNames)
		}
		namespaced := crd.Spec.Scope == apiextensionsv1.NamespaceScoped
		if namespaced == (kind == "IngotNetwork" || kind == "IngotImage") {
			t.Errorf("%s: scope %s", kind, crd.Spec.Scope)
		}
		checkConversion(t, crd)
	}
	for kind := range want {
		t.Errorf("%s is not installed", kind)
	}
}

func checkConversion(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	kind := crd.Spec.Names.Kind
	if len(crd.Spec.Versions) == 1 {
		if crd.Spec.Conversion != nil || crd.Annotations[caAnnotation] != "" {
			t.Errorf("%s has one version but a conversion webhook", kind)
		}
		return
	}
	c := crd.Spec.Conversion
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil || c.Webhook.ClientConfig.Service == nil {
		t.Errorf("%s has two versions and no conversion webhook", kind)
		return
	}
	service := c.Webhook.ClientConfig.Service
	if service.Name != "ingot-webhook-service" || service.Namespace != "ingot-system" || service.Path == nil || *service.Path != "/convert" {
		t.Errorf("%s: conversion by %v", kind, service)
	}
	if got := crd.Annotations[caAnnotation]; got != "ingot-system/ingot-serving-cert" {
		t.Errorf("%s: %s is %q", kind, caAnnotation, got)
	}
}

// failsOpen is the only webhook that fails open: the controller makes the same check (I7), and a
// deletion must not wait for the manager.
const failsOpen = "deletion.ingotmachine.infrastructure.cluster.x-k8s.io"

// All other webhooks fail closed. No webhook has side effects, and all use the Service with
// cert-manager's certificate.
func TestWebhooksAsInstalled(t *testing.T) {
	seen := map[string]bool{}
	for _, object := range render(t) {
		switch object.GetKind() {
		case "MutatingWebhookConfiguration":
			config := as[admissionregistrationv1.MutatingWebhookConfiguration](t, object)
			if got := config.Annotations[caAnnotation]; got != "ingot-system/ingot-serving-cert" {
				t.Errorf("%s is %q", caAnnotation, got)
			}
			for _, hook := range config.Webhooks {
				checkWebhook(t, admissionregistrationv1.ValidatingWebhook{
					Name: hook.Name, ClientConfig: hook.ClientConfig, Rules: hook.Rules,
					FailurePolicy: hook.FailurePolicy, MatchPolicy: hook.MatchPolicy, SideEffects: hook.SideEffects,
				})
			}
			seen["defaulting"] = len(config.Webhooks) == 7 // all kinds with fields to normalize
		case "ValidatingWebhookConfiguration":
			config := as[admissionregistrationv1.ValidatingWebhookConfiguration](t, object)
			if got := config.Annotations[caAnnotation]; got != "ingot-system/ingot-serving-cert" {
				t.Errorf("%s is %q", caAnnotation, got)
			}
			for _, hook := range config.Webhooks {
				checkWebhook(t, hook)
			}
			seen["configuration"] = len(config.Webhooks) == 10 // all kinds with rules beyond the schema, and the deletion of IngotMachines
		case "Certificate":
			names, _, err := unstructured.NestedStringSlice(object.Object, "spec", "dnsNames")
			want := []string{"ingot-webhook-service.ingot-system.svc", "ingot-webhook-service.ingot-system.svc.cluster.local"}
			if err != nil || !slices.Equal(names, want) {
				t.Errorf("certificate for %v: %v", names, err)
			}
			seen["certificate"] = object.GetName() == "ingot-serving-cert"
		case "Service":
			seen["service"] = object.GetName() == "ingot-webhook-service" && object.GetNamespace() == "ingot-system"
		}
	}
	for _, what := range []string{"configuration", "defaulting", "certificate", "service"} {
		if !seen[what] {
			t.Errorf("the %s is missing or not as expected", what)
		}
	}
}

func checkWebhook(t *testing.T, hook admissionregistrationv1.ValidatingWebhook) {
	t.Helper()
	policy := admissionregistrationv1.Fail
	if hook.Name == failsOpen {
		policy = admissionregistrationv1.Ignore
	}
	if *hook.FailurePolicy != policy || *hook.MatchPolicy != admissionregistrationv1.Equivalent ||
		*hook.SideEffects != admissionregistrationv1.SideEffectClassNone {
		t.Errorf("%s: failurePolicy %s, matchPolicy %s, sideEffects %s", hook.Name, *hook.FailurePolicy, *hook.MatchPolicy, *hook.SideEffects)
	}
	service := hook.ClientConfig.Service
	if service == nil || service.Name != "ingot-webhook-service" || service.Namespace != "ingot-system" {
		t.Errorf("%s: leads to %v", hook.Name, service)
	}
	for _, rule := range hook.Rules {
		if !slices.Equal(rule.APIVersions, []string{"v1beta2"}) {
			t.Errorf("%s: versions %v, want the hub only", hook.Name, rule.APIVersions)
		}
		for _, resource := range rule.Resources {
			if strings.Contains(resource, "/") || strings.Contains(resource, "*") {
				t.Errorf("%s: asks about %s; subresources must never wait for a webhook", hook.Name, resource)
			}
		}
	}
}
