// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1beta1 "github.com/ingot-metal/ingot/api/v1beta1"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

const (
	kindMachineTemplate = "IngotMachineTemplate"
	kindClusterTemplate = "IngotClusterTemplate"
)

// Operation is an operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// template holds the parsed fields of a template in a request.
type template struct {
	metav1.TypeMeta `json:",inline"`
	Spec            struct {
		Template struct {
			Spec map[string]json.RawMessage `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// readTemplate parses a template. It rejects a template without apiVersion or kind, and an Ingot
// template in a version that Ingot does not serve.
func readTemplate(data []byte) (*template, error) {
	out := &template{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, errors.New("a template in the request is not a JSON object")
	}
	version, err := schema.ParseGroupVersion(out.APIVersion)
	switch {
	case err != nil || version.Version == "" || out.Kind == "":
		return nil, errors.New("a template in the request has no valid apiVersion and kind")
	case !out.isIngot(kindMachineTemplate) && !out.isIngot(kindClusterTemplate):
	case version.Version != infrav1.GroupVersion.Version && version.Version != infrav1beta1.GroupVersion.Version:
		return nil, fmt.Errorf("the apiVersion of an %s must be %s or %s; correct the templateRef in the ClusterClass", out.Kind, infrav1.GroupVersion, infrav1beta1.GroupVersion)
	}
	return out, nil
}

// isIngot reports whether the template has a kind of Ingot's API group, in any version.
func (t *template) isIngot(kind string) bool {
	return t.Kind == kind && t.GroupVersionKind().Group == infrav1.GroupVersion.Group
}

// set returns the operation that sets a field of the template's spec, or none if the field already
// has the value.
func (t *template) set(field string, value any) ([]Operation, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", field, err)
	}
	var is, wanted any
	if raw, ok := t.Spec.Template.Spec[field]; ok && json.Unmarshal(raw, &is) == nil && json.Unmarshal(data, &wanted) == nil && reflect.DeepEqual(is, wanted) {
		return nil, nil
	}
	return []Operation{{Op: "add", Path: "/spec/template/spec/" + field, Value: value}}, nil
}

// patch returns the operations that apply the variables to a template. It returns none for other
// providers' templates. Each operation sets a whole field, so that the result does not depend on
// other patches.
func patch(t *template, v values, choose chooser) ([]Operation, error) {
	switch {
	case t.isIngot(kindClusterTemplate):
		return patchCluster(t, v)
	case t.isIngot(kindMachineTemplate):
		return patchMachine(t, v, choose)
	}
	return nil, nil
}

// patchCluster sets controlPlaneSelector, so that Cluster API gets only failure domains with a host
// for the control plane.
func patchCluster(t *template, v values) ([]Operation, error) {
	selector, err := v.selector(VariableControlPlaneHosts)
	if err != nil {
		return nil, err
	}
	if len(selector.MatchLabels) > 0 {
		return t.set("controlPlaneSelector", map[string]any{"matchLabels": selector.MatchLabels})
	}
	if _, ok := t.Spec.Template.Spec["controlPlaneSelector"]; !ok {
		return nil, nil
	}
	return t.set("controlPlaneSelector", map[string]any{"matchLabels": map[string]string{}})
}

// patchMachine sets image, hostSelector and cleaning. A template of a live system gets no image.
func patchMachine(t *template, v values, choose chooser) ([]Operation, error) {
	var builtin runtimehooksv1.Builtins
	if err := v.into(runtimehooksv1.BuiltinsName, &builtin); err != nil {
		return nil, err
	}
	name, version, deployment := VariableWorkerHosts, "", ""
	switch {
	case builtin.MachineDeployment != nil:
		version, deployment = builtin.MachineDeployment.Version, builtin.MachineDeployment.TopologyName
	case builtin.ControlPlane != nil:
		name, version = VariableControlPlaneHosts, builtin.ControlPlane.Version
	}
	if version == "" {
		return nil, errors.New("an IngotMachineTemplate has neither the variable builtin.controlPlane.version nor builtin.machineDeployment.version")
	}
	selector, err := v.selector(name)
	if err != nil {
		return nil, err
	}
	query := ImageQuery{Version: version, Architecture: selector.Architecture}
	if err := v.into(VariableOS, &query.OS); err != nil {
		return nil, err
	}
	operations, err := patchImage(t, query, deployment, choose)
	if err != nil {
		return nil, err
	}
	hosts, err := t.set("hostSelector", selector)
	if err != nil {
		return nil, err
	}
	operations = append(operations, hosts...)
	var cleaning infrav1.CleaningMode
	if err := v.into(VariableCleaning, &cleaning); err != nil || cleaning == "" {
		return operations, err
	}
	clean, err := t.set("cleaning", cleaning)
	return append(operations, clean...), err
}

// patchImage replaces the template's image by an IngotImage.
func patchImage(t *template, query ImageQuery, deployment string, choose chooser) ([]Operation, error) {
	if _, live := t.Spec.Template.Spec["live"]; live {
		return nil, nil
	}
	image, err := choose(query, deployment)
	if err != nil {
		return nil, err
	}
	var operations []Operation
	if _, inline := t.Spec.Template.Spec["image"]; inline {
		operations = append(operations, Operation{Op: "remove", Path: "/spec/template/spec/image"})
	}
	ref, err := t.set("imageRef", infrav1.ImageReference{Name: image})
	return append(operations, ref...), err
}

// ImageQuery selects an IngotImage.
type ImageQuery struct {
	// Version is the Kubernetes version with "v". Architecture is a GOARCH value. An empty OS
	// matches any.
	Version, Architecture, OS string
}

// chooser returns the name of the IngotImage for the machines of a MachineDeployment, given by its
// name in the topology, or of the control plane if deployment is empty.
type chooser func(query ImageQuery, deployment string) (string, error)

// clusterOf returns the Cluster of a request. Only the global variables contain its name.
func clusterOf(request *runtimehooksv1.GeneratePatchesRequest) (types.NamespacedName, error) {
	var builtin runtimehooksv1.Builtins
	if err := merged(request.Variables, nil).into(runtimehooksv1.BuiltinsName, &builtin); err != nil {
		return types.NamespacedName{}, err
	}
	if builtin.Cluster == nil || builtin.Cluster.Name == "" || builtin.Cluster.Namespace == "" {
		return types.NamespacedName{}, errors.New("the request lacks the variables builtin.cluster.name and builtin.cluster.namespace")
	}
	return types.NamespacedName{Namespace: builtin.Cluster.Namespace, Name: builtin.Cluster.Name}, nil
}

// templatesOf returns the templates of a MachineDeployment, given by its name in the topology, or of
// the control plane if deployment is empty.
func templatesOf(templates []infrav1.IngotMachineTemplate, deployment string) []infrav1.IngotMachineTemplate {
	return slices.DeleteFunc(slices.Clone(templates), func(t infrav1.IngotMachineTemplate) bool {
		return t.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] != deployment
	})
}

// OSInUse returns the operating system of the machines of a MachineDeployment, given by its name in
// the topology, or of the control plane if deployment is empty. Without own templates, all templates
// of the Cluster count. It returns "" if the system is unknown. A new system in the catalog thus
// reinstalls no existing Cluster.
func OSInUse(templates []infrav1.IngotMachineTemplate, images []infrav1.IngotImage, deployment string) string {
	if own := templatesOf(templates, deployment); len(own) > 0 {
		return inventory.OSInUse(own, images)
	}
	return inventory.OSInUse(templates, images)
}

func generate(request *runtimehooksv1.GeneratePatchesRequest, choose chooser) ([]runtimehooksv1.GeneratePatchesResponseItem, error) {
	var out []runtimehooksv1.GeneratePatchesResponseItem
	for _, item := range request.Items {
		t, err := readTemplate(item.Object.Raw)
		if err != nil {
			return nil, err
		}
		v := merged(request.Variables, item.Variables)
		if err := v.check(); err != nil {
			return nil, err
		}
		operations, err := patch(t, v, choose)
		if err != nil {
			return nil, err
		}
		if len(operations) == 0 {
			continue
		}
		data, err := json.Marshal(operations)
		if err != nil {
			return nil, fmt.Errorf("encode the patch of an %s: %w", t.Kind, err)
		}
		out = append(out, runtimehooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: runtimehooksv1.JSONPatchType, Patch: data})
	}
	return out, nil
}
