// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1beta1 "github.com/ingot-metal/ingot/api/v1beta1"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// Kinds of templates that are patched.
const (
	kindMachineTemplate = "IngotMachineTemplate"
	kindClusterTemplate = "IngotClusterTemplate"
)

// An Operation of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// template is what is read of a template in a request.
type template struct {
	metav1.TypeMeta `json:",inline"`
	Spec            struct {
		Template struct {
			Spec map[string]json.RawMessage `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// readTemplate reads the head of any template. It refuses a template without apiVersion or
// kind, and a template of Ingot's in a version that Ingot does not serve.
func readTemplate(data []byte) (*template, error) {
	out := &template{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, errors.New("a template of the request is no object")
	}
	version, err := schema.ParseGroupVersion(out.APIVersion)
	switch {
	case err != nil || version.Version == "" || out.Kind == "":
		return nil, errors.New("a template of the request has no valid apiVersion and kind")
	case !out.ours(kindMachineTemplate) && !out.ours(kindClusterTemplate):
	case version.Version != infrav1.GroupVersion.Version && version.Version != infrav1beta1.GroupVersion.Version:
		return nil, fmt.Errorf("apiVersion of an %s must be %s or %s; correct the templateRef in the ClusterClass", out.Kind, infrav1.GroupVersion, infrav1beta1.GroupVersion)
	}
	return out, nil
}

// ours says whether a template is of a kind of Ingot's, in any of its versions.
func (t *template) ours(kind string) bool {
	return t.Kind == kind && t.GroupVersionKind().Group == infrav1.GroupVersion.Group
}

// set returns the operation that gives a field of the template's spec a value; none where
// the field has it.
func (t *template) set(field string, value any) ([]Operation, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("value of %s: %w", field, err)
	}
	var is, wanted any
	if raw, ok := t.Spec.Template.Spec[field]; ok && json.Unmarshal(raw, &is) == nil && json.Unmarshal(data, &wanted) == nil && reflect.DeepEqual(is, wanted) {
		return nil, nil
	}
	return []Operation{{Op: "add", Path: "/spec/template/spec/" + field, Value: value}}, nil
}

// patch returns the operations that make a template what the variables say; none for
// templates that are not Ingot's, and none for fields that are so already. The value of
// every operation is the whole field, so that it does not depend on what other patches
// left there.
func patch(t *template, v values, choose chooser) ([]Operation, error) {
	switch {
	case t.ours(kindClusterTemplate):
		return patchCluster(t, v)
	case t.ours(kindMachineTemplate):
		return patchMachine(t, v, choose)
	}
	return nil, nil
}

// patchCluster: only racks with a host that may be a control plane are offered to it.
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

// patchMachine: image of the catalogue, hosts and cleaning. A template of a live system
// keeps that, and gets no image.
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
		return nil, errors.New("an IngotMachineTemplate has neither builtin.controlPlane.version nor builtin.machineDeployment.version among its variables")
	}
	selector, err := v.selector(name)
	if err != nil {
		return nil, err
	}
	wanted := Wanted{Version: version, Architecture: selector.Arch}
	if err := v.into(VariableOS, &wanted.OS); err != nil {
		return nil, err
	}
	operations, err := patchImage(t, wanted, deployment, choose)
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

// patchImage puts the image of the catalogue in place of the template's.
func patchImage(t *template, wanted Wanted, deployment string, choose chooser) ([]Operation, error) {
	if _, live := t.Spec.Template.Spec["live"]; live {
		return nil, nil
	}
	image, err := choose(wanted, deployment)
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

// Wanted is what an image is chosen by.
type Wanted struct {
	// Version of Kubernetes, with its v; Architecture in Go's terms; OS: any, if empty.
	Version, Architecture, OS string
}

// chooser names the IngotImage for what is wanted, or says that there is none. Whose
// machines it is for tells the name of a MachineDeployment in the topology; of the control
// plane it is empty.
type chooser func(wanted Wanted, deployment string) (string, error)

// clusterOf is the Cluster that a request is about. What is said of all templates and what
// is said of each have the same name, so that it is only in the former.
func clusterOf(request *runtimehooksv1.GeneratePatchesRequest) (types.NamespacedName, error) {
	var builtin runtimehooksv1.Builtins
	if err := merged(request.Variables, nil).into(runtimehooksv1.BuiltinsName, &builtin); err != nil {
		return types.NamespacedName{}, err
	}
	if builtin.Cluster == nil || builtin.Cluster.Name == "" || builtin.Cluster.Namespace == "" {
		return types.NamespacedName{}, errors.New("the request has no builtin.cluster.name and builtin.cluster.namespace among its variables")
	}
	return types.NamespacedName{Namespace: builtin.Cluster.Namespace, Name: builtin.Cluster.Name}, nil
}

// ofGroup returns the templates of a MachineDeployment, by its name in the topology, or
// where that is empty of the control plane.
func ofGroup(templates []infrav1.IngotMachineTemplate, deployment string) []infrav1.IngotMachineTemplate {
	var own []infrav1.IngotMachineTemplate
	for i := range templates {
		if templates[i].Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] == deployment {
			own = append(own, templates[i])
		}
	}
	return own
}

// SystemInUse is the operating system of the machines of a MachineDeployment, by its name
// in the topology, or where that is empty of the control plane: as their templates name
// it, or where there are none yet, as all of the Cluster's do. Empty: it is not known. So
// another system in the catalogue is for new Clusters, and reinstalls none.
func SystemInUse(templates []infrav1.IngotMachineTemplate, images []infrav1.IngotImage, deployment string) string {
	if own := ofGroup(templates, deployment); len(own) > 0 {
		return inventory.OSInUse(own, images)
	}
	return inventory.OSInUse(templates, images)
}

// generate answers GeneratePatches.
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
			return nil, fmt.Errorf("patch of %s: %w", t.Kind, err)
		}
		out = append(out, runtimehooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: runtimehooksv1.JSONPatchType, Patch: data})
	}
	return out, nil
}
