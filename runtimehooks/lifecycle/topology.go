// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// variables of Ingot's classes that say which hosts are asked for; those that
// mutation knows too have their names there.
const variableFailureDomainLabel = "failureDomainLabel"

// controlPlaneGroup names the control plane among the groups.
const controlPlaneGroup = "control plane"

// A Blueprint is what a ClusterClass and its templates say: all that the request of a
// hook does not hold.
type Blueprint struct {
	Class           *clusterv1.ClusterClass
	ClusterTemplate *infrav1.IngotClusterTemplate
	// Machines are the machine templates by name.
	Machines map[string]*infrav1.IngotMachineTemplate
}

// A Group is a number of equal machines that a topology asks for; none, perhaps, to begin
// with.
type Group struct {
	Name         string
	ControlPlane bool
	Count        int
	// FailureDomain that each must stand in; empty: any.
	FailureDomain string
	// Spec of the machines, as the class's variables make it.
	Spec infrav1.IngotMachineSpec
	// Image is what the catalogue is asked for, where the class takes images of it; without
	// a version it is not: the machines are live systems.
	Image mutation.Wanted
}

// Wish is what one Cluster's topology asks of the inventory.
type Wish struct {
	// Cluster is the spec of the IngotCluster to come.
	Cluster infrav1.IngotClusterSpec
	Groups  []Group
}

// wishOf counts the machines of a topology that are to stand on Ingot's servers. What
// patches of classes that are not Ingot's do is not known here: of these the templates
// count as they are.
func wishOf(cluster *clusterv1.Cluster, b Blueprint) Wish {
	topology := cluster.Spec.Topology
	wish := Wish{}
	if b.ClusterTemplate != nil {
		wish.Cluster = *b.ClusterTemplate.Spec.Template.Spec.DeepCopy()
	}
	global := setting(nil, topology.Variables)
	controlPlaneVariables, workerVariables := variablesOf(b.Class)
	controlPlane := setting(global, topology.ControlPlane.Variables.Overrides)
	if label, ok := read[string](global, variableFailureDomainLabel); ok && label != "" {
		wish.Cluster.FailureDomainLabel = label
	}
	catalogue := takesImages(b.Class)
	// As patches of the classes do: of the cluster's variables, not of one group's. Those
	// of the extension put it in place of the template's whatever it is.
	if selector, ok := read[infrav1.HostSelector](global, controlPlaneVariables.hosts); catalogue || ok && len(selector.MatchLabels) > 0 {
		wish.Cluster.ControlPlaneSelector = &metav1.LabelSelector{MatchLabels: selector.MatchLabels}
	}
	add := func(g Group, template clusterv1.ClusterClassTemplateReference, s settings, role roleVariables) {
		if !machinesAreOurs(template) {
			return // they stand on no host of the inventory, or there are none: a hosted control plane
		}
		g.Spec = machineSpec(b.Machines[template.Name], s, role)
		if catalogue {
			g.Image = wanted(g.Spec, s, topology.Version)
		}
		// One of no machines counts too: an autoscaler may have made some since, and what is
		// made of it needs an image.
		wish.Groups = append(wish.Groups, g)
	}
	add(Group{Name: controlPlaneGroup, ControlPlane: true, Count: replicas(topology.ControlPlane.Replicas)},
		b.Class.Spec.ControlPlane.MachineInfrastructure.TemplateRef, controlPlane, controlPlaneVariables)
	for _, deployment := range topology.Workers.MachineDeployments {
		class := deploymentClass(b.Class, deployment.Class)
		if class == nil {
			continue // Cluster API refuses the Cluster
		}
		domain := deployment.FailureDomain
		if domain == "" {
			domain = class.FailureDomain
		}
		add(Group{Name: deployment.Name, Count: replicas(deployment.Replicas, deployment.Metadata.Annotations, class.Metadata.Annotations), FailureDomain: domain},
			class.Infrastructure.TemplateRef, setting(global, deployment.Variables.Overrides), workerVariables)
	}
	return wish
}

// replicas that Cluster API makes where the topology says how many, or leaves it open:
// then the cluster autoscaler's least size, where its greatest is there too (defaults of
// MachineDeployments in Cluster API v1.14). Of an annotation that several say, the first counts.
func replicas(asked *int32, annotations ...map[string]string) int {
	if asked != nil {
		return int(*asked)
	}
	least, hasLeast := annotation(clusterv1.AutoscalerMinSizeAnnotation, annotations)
	_, hasMost := annotation(clusterv1.AutoscalerMaxSizeAnnotation, annotations)
	if size, err := strconv.ParseInt(least, 10, 32); hasLeast && hasMost && err == nil && size >= 0 {
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

// roleVariables are the names of those variables of Ingot's classes that say which hosts
// suit the machines of a role.
type roleVariables struct{ hosts, network, disk, mirror string }

// variablesOf are the variables of a class. Those that the extension gives a class have a
// prefix; the class ingot has its own.
func variablesOf(class *clusterv1.ClusterClass) (controlPlane, workers roleVariables) {
	controlPlane = roleVariables{"controlPlaneHostSelector", "controlPlaneNetworkData", "controlPlaneRootDeviceHints", "controlPlaneSoftwareRAID"}
	workers = roleVariables{"workerHostSelector", "workerNetworkData", "workerRootDeviceHints", "workerSoftwareRAID"}
	if takesImages(class) {
		controlPlane.hosts, workers.hosts = mutation.VariableControlPlaneHosts, mutation.VariableWorkerHosts
	}
	return controlPlane, workers
}

// checkVariables refuses a topology of the extension's class whose variables cannot be
// read: the hosts that it asks for would not be known.
func checkVariables(topology clusterv1.Topology) error {
	global := setting(nil, topology.Variables)
	all := []settings{setting(global, topology.ControlPlane.Variables.Overrides)}
	for _, deployment := range topology.Workers.MachineDeployments {
		all = append(all, setting(global, deployment.Variables.Overrides))
	}
	for _, s := range all {
		if err := mutation.Check(s); err != nil {
			return tellable{err}
		}
	}
	return nil
}

// machineSpec is the template's with what the variables of its role have. But for the
// selector an empty one leaves the template's, as the patches of the classes do.
func machineSpec(template *infrav1.IngotMachineTemplate, s settings, role roleVariables) infrav1.IngotMachineSpec {
	spec := infrav1.IngotMachineSpec{}
	if template != nil {
		spec = *template.Spec.Template.Spec.DeepCopy()
	}
	if selector, ok := read[infrav1.HostSelector](s, role.hosts); ok {
		spec.HostSelector = &selector
	}
	spec.NetworkData = said(s, role.network, spec.NetworkData)
	spec.RootDeviceHints = said(s, role.disk, spec.RootDeviceHints)
	spec.SoftwareRAID = said(s, role.mirror, spec.SoftwareRAID)
	return spec
}

// said is what a variable has, or else, where it is not set or is empty, the template's.
func said[T any](s settings, name string, template *T) *T {
	value, ok := read[T](s, name)
	if !ok || reflect.ValueOf(value).IsZero() {
		return template
	}
	return &value
}

// wanted is what mutation will ask the catalogue for.
func wanted(spec infrav1.IngotMachineSpec, s settings, version string) mutation.Wanted {
	out := mutation.Wanted{Version: version, Architecture: mutation.DefaultArchitecture}
	if spec.HostSelector != nil && spec.HostSelector.Arch != "" {
		out.Architecture = spec.HostSelector.Arch
	}
	if spec.Live != nil {
		out.Version = ""
		return out
	}
	out.OS, _ = read[string](s, mutation.VariableOS)
	return out
}

// settings are variables by name.
type settings map[string][]byte

func setting(base settings, over []clusterv1.ClusterVariable) settings {
	out := settings{}
	for name, value := range base {
		out[name] = value
	}
	for _, v := range over {
		out[v.Name] = v.Value.Raw
	}
	return out
}

// read decodes a variable. One of another form is not Ingot's: a class of somebody
// else's uses the name for something of its own.
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
