// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

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

// readTemplate reads the head of any template.
func readTemplate(data []byte) (*template, error) {
	out := &template{}
	if err := json.Unmarshal(data, out); err != nil {
		return nil, errors.New("a template of the request is no object")
	}
	return out, nil
}

// ours says whether a template is of a kind of Ingot's, in any of its versions.
func (t *template) ours(kind string) bool {
	return t.Kind == kind && t.GroupVersionKind().Group == infrav1.GroupVersion.Group
}

// patch returns the operations that make a template what the variables say; none for
// templates that are not Ingot's. The value of every operation is the whole field, so
// that it does not depend on what other patches left there.
func patch(t *template, v values, choose chooser) ([]Operation, error) {
	switch {
	case t.ours(kindClusterTemplate):
		return patchCluster(v)
	case t.ours(kindMachineTemplate):
		return patchMachine(t, v, choose)
	}
	return nil, nil
}

// patchCluster: only racks with a host that may be a control plane are offered to it.
func patchCluster(v values) ([]Operation, error) {
	selector, err := v.selector(VariableControlPlaneHosts)
	if err != nil {
		return nil, err
	}
	labels := selector.MatchLabels
	if labels == nil {
		labels = map[string]string{}
	}
	return []Operation{{Op: "add", Path: "/spec/template/spec/controlPlaneSelector", Value: map[string]any{"matchLabels": labels}}}, nil
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
	default:
		return nil, nil // a template of nobody's machines
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
	operations = append(operations, Operation{Op: "add", Path: "/spec/template/spec/hostSelector", Value: selector})
	var cleaning infrav1.CleaningMode
	if err := v.into(VariableCleaning, &cleaning); err != nil || cleaning == "" {
		return operations, err
	}
	return append(operations, Operation{Op: "add", Path: "/spec/template/spec/cleaning", Value: cleaning}), nil
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
	return append(operations, Operation{Op: "add", Path: "/spec/template/spec/imageRef", Value: infrav1.ImageReference{Name: image}}), nil
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
	if err := merged(request.Variables, nil).into(runtimehooksv1.BuiltinsName, &builtin); err != nil || builtin.Cluster == nil {
		return types.NamespacedName{}, err
	}
	return types.NamespacedName{Namespace: builtin.Cluster.Namespace, Name: builtin.Cluster.Name}, nil
}

// SystemInUse is the operating system of the machines of a MachineDeployment, by its name
// in the topology, or where that is empty of the control plane: as their templates name
// it, or where there are none yet, as all of the Cluster's do. Empty: it is not known. So
// another system in the catalogue is for Clusters to come, and reinstalls nobody.
func SystemInUse(templates []infrav1.IngotMachineTemplate, images []infrav1.IngotImage, deployment string) string {
	var own []infrav1.IngotMachineTemplate
	for i := range templates {
		if templates[i].Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel] == deployment {
			own = append(own, templates[i])
		}
	}
	if len(own) > 0 {
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
		operations, err := patch(t, merged(request.Variables, item.Variables), choose)
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
