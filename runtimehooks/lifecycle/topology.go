// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// variableFailureDomainLabel is a variable of Ingot's ClusterClasses.
const variableFailureDomainLabel = "failureDomainLabel"

// controlPlaneGroup is the name of the control plane's group.
const controlPlaneGroup = "control plane"

// Blueprint is a ClusterClass with its templates.
type Blueprint struct {
	Class           *clusterv1.ClusterClass
	ClusterTemplate *infrav1.IngotClusterTemplate
	// Machines contains the machine templates by name.
	Machines map[string]*infrav1.IngotMachineTemplate
}

// Group is a number of equal machines of a topology, possibly zero.
type Group struct {
	Name         string
	ControlPlane bool
	Count        int
	// FailureDomain is the failure domain of the machines; "" means any.
	FailureDomain string
	// Spec is the spec of the machines with the class's variables.
	Spec infrav1.IngotMachineSpec
	// Image is the query to the catalog. Its version is empty if the class does not use the catalog,
	// and for live systems.
	Image mutation.ImageQuery
}

// Requirements are the requirements of a Cluster's topology on the inventory.
type Requirements struct {
	// Cluster is the spec of the future IngotCluster.
	Cluster infrav1.IngotClusterSpec
	Groups  []Group
}

// requirementsOf returns the machines of a topology that need hosts. The patches of classes other
// than Ingot's are unknown here, so their templates are used unpatched.
func requirementsOf(cluster *clusterv1.Cluster, b Blueprint) Requirements {
	topology := cluster.Spec.Topology
	want := Requirements{}
	if b.ClusterTemplate != nil {
		want.Cluster = *b.ClusterTemplate.Spec.Template.Spec.DeepCopy()
	}
	global := override(nil, topology.Variables)
	controlPlaneVariables, workerVariables := variablesOf(b.Class)
	controlPlane := override(global, topology.ControlPlane.Variables.Overrides)
	if label, ok := read[string](global, variableFailureDomainLabel); ok && label != "" {
		want.Cluster.FailureDomainLabel = label
	}
	catalog := usesCatalog(b.Class)
	// The patches use the global variable, not an override. The extension's patches always replace
	// the template's selector.
	if selector, ok := read[infrav1.HostSelector](global, controlPlaneVariables.hosts); catalog || ok && len(selector.MatchLabels) > 0 {
		want.Cluster.ControlPlaneSelector = &metav1.LabelSelector{MatchLabels: selector.MatchLabels}
	}
	add := func(g Group, template clusterv1.ClusterClassTemplateReference, s settings, role roleVariables) {
		if !isIngotMachineTemplate(template) {
			return // other providers' machines, or a hosted control plane
		}
		g.Spec = machineSpec(b.Machines[template.Name], s, role)
		if catalog {
			g.Image = imageQuery(g.Spec, s, topology.Version)
		}
		// A group without machines also needs an image, because an autoscaler may add machines.
		want.Groups = append(want.Groups, g)
	}
	add(Group{Name: controlPlaneGroup, ControlPlane: true, Count: replicas(topology.ControlPlane.Replicas)},
		b.Class.Spec.ControlPlane.MachineInfrastructure.TemplateRef, controlPlane, controlPlaneVariables)
	for _, deployment := range topology.Workers.MachineDeployments {
		class := deploymentClass(b.Class, deployment.Class)
		if class == nil {
			continue // Cluster API rejects the Cluster
		}
		domain := deployment.FailureDomain
		if domain == "" {
			domain = class.FailureDomain
		}
		add(Group{Name: deployment.Name, Count: replicas(deployment.Replicas, deployment.Metadata.Annotations, class.Metadata.Annotations), FailureDomain: domain},
			class.Infrastructure.TemplateRef, override(global, deployment.Variables.Overrides), workerVariables)
	}
	return want
}

// replicas returns the number of machines that Cluster API creates. If the topology sets none, the
// default is the minimum size of the cluster autoscaler if its maximum is set too, and else 1
// (Cluster API v1.14). The first annotations take precedence.
func replicas(desired *int32, annotations ...map[string]string) int {
	if desired != nil {
		return int(*desired)
	}
	minimum, hasMinimum := annotation(clusterv1.AutoscalerMinSizeAnnotation, annotations)
	_, hasMaximum := annotation(clusterv1.AutoscalerMaxSizeAnnotation, annotations)
	if size, err := strconv.ParseInt(minimum, 10, 32); hasMinimum && hasMaximum && err == nil && size >= 0 {
		return int(size)
	}
	return 1
}

func annotation(name string, in []map[string]string) (value string, ok bool) {
	for _, annotations := range in {
		if value, ok = annotations[name]; ok {
			return value, true
		}
	}
	return "", false
}

func deploymentClass(class *clusterv1.ClusterClass, name string) *clusterv1.MachineDeploymentClass {
	for i := range class.Spec.Workers.MachineDeployments {
		if class.Spec.Workers.MachineDeployments[i].Class == name {
			return &class.Spec.Workers.MachineDeployments[i]
		}
	}
	return nil
}

// roleVariables are the names of the variables that select the hosts of a role.
type roleVariables struct{ hosts, network, disk, mirror string }

// variablesOf returns the variables of a class. The extension's variables have a prefix; the class
// ingot defines its own.
func variablesOf(class *clusterv1.ClusterClass) (controlPlane, workers roleVariables) {
	controlPlane = roleVariables{"controlPlaneHostSelector", "controlPlaneNetworkData", "controlPlaneRootDeviceHints", "controlPlaneSoftwareRAID"}
	workers = roleVariables{"workerHostSelector", "workerNetworkData", "workerRootDeviceHints", "workerSoftwareRAID"}
	if usesCatalog(class) {
		controlPlane.hosts, workers.hosts = mutation.VariableControlPlaneHosts, mutation.VariableWorkerHosts
	}
	return controlPlane, workers
}

// checkVariables rejects a topology with invalid variables, whose required hosts are unknown.
func checkVariables(topology clusterv1.Topology) error {
	global := override(nil, topology.Variables)
	all := []settings{override(global, topology.ControlPlane.Variables.Overrides)}
	for _, deployment := range topology.Workers.MachineDeployments {
		all = append(all, override(global, deployment.Variables.Overrides))
	}
	for _, s := range all {
		if err := mutation.Check(s); err != nil {
			return userError{err}
		}
	}
	return nil
}

// machineSpec returns the template's spec with the variables of its role. Like the patches of the
// classes, an empty variable other than the selector keeps the template's value.
func machineSpec(template *infrav1.IngotMachineTemplate, s settings, role roleVariables) infrav1.IngotMachineSpec {
	spec := infrav1.IngotMachineSpec{}
	if template != nil {
		spec = *template.Spec.Template.Spec.DeepCopy()
	}
	if selector, ok := read[infrav1.HostSelector](s, role.hosts); ok {
		spec.HostSelector = &selector
	}
	spec.NetworkData = valueOr(s, role.network, spec.NetworkData)
	spec.RootDeviceHints = valueOr(s, role.disk, spec.RootDeviceHints)
	spec.SoftwareRAID = valueOr(s, role.mirror, spec.SoftwareRAID)
	return spec
}

// valueOr returns the value of a variable, or the template's value if the variable is unset or empty.
func valueOr[T any](s settings, name string, template *T) *T {
	value, ok := read[T](s, name)
	if !ok || reflect.ValueOf(value).IsZero() {
		return template
	}
	return &value
}

// imageQuery returns the query that package mutation will use.
func imageQuery(spec infrav1.IngotMachineSpec, s settings, version string) mutation.ImageQuery {
	out := mutation.ImageQuery{Version: version, Architecture: mutation.DefaultArchitecture}
	if spec.HostSelector != nil && spec.HostSelector.Architecture != "" {
		out.Architecture = spec.HostSelector.Architecture
	}
	if spec.Live != nil {
		out.Version = ""
		return out
	}
	out.OS, _ = read[string](s, mutation.VariableOS)
	return out
}

// settings contains the raw values of variables by name.
type settings map[string][]byte

// override returns base with the given variables.
func override(base settings, variables []clusterv1.ClusterVariable) settings {
	out := settings{}
	maps.Copy(out, base)
	for _, v := range variables {
		out[v.Name] = v.Value.Raw
	}
	return out
}

// read decodes a variable. It returns false for another schema, because another ClusterClass may use
// the same name.
func read[T any](s settings, name string) (value T, ok bool) {
	data, ok := s[name]
	if !ok {
		return value, false
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		var none T
		return none, false
	}
	return value, true
}
