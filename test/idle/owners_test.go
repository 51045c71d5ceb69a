// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"errors"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

type (
	// owners judges the owner references of the objects of each kind.
	owners = map[string]func(types.NamespacedName, []metav1.OwnerReference) error
	// finalizers are those that an object of each kind has; none where the kind is
	// missing.
	finalizers = map[string]func(types.NamespacedName) []string
)

// ownersOf are the owner references of all that is in a cluster's namespace; a
// topology's cluster controls what it made (C38).
func ownersOf(topology bool) []owners {
	return []owners{
		framework.CoreOwnerReferenceAssertion, framework.KubeadmBootstrapOwnerReferenceAssertions,
		framework.KubeadmControlPlaneOwnerReferenceAssertions(topology), ingotOwners(topology), kubernetesOwners(),
	}
}

// ingotOwners are those of Ingot's kinds.
func ingotOwners(topology bool) owners {
	core := func(kind string, controller bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Controller: ptr.To(controller)}
	}
	none := exactly()
	return owners{
		"IngotCluster":         exactly(core("Cluster", topology)),
		"IngotClusterTemplate": exactly(core("ClusterClass", false)),
		"IngotMachine":         exactly(core("Machine", true)),
		// One of a ClusterClass, or one that machines are made from.
		"IngotMachineTemplate": func(_ types.NamespacedName, got []metav1.OwnerReference) error {
			return framework.HasOneOfExactOwners(got, []metav1.OwnerReference{core("Cluster", false)}, []metav1.OwnerReference{core("ClusterClass", false)})
		},
		"IngotHost":     none, // the root of what belongs to a server
		"IngotNetwork":  none,
		"IngotHardware": exactly(host(true)),
	}
}

// kubernetesOwners are those of Secrets and ConfigMaps: the password of a BMC goes with
// its host, a CA is nobody's own, everything else is as the framework has it.
func kubernetesOwners() owners {
	out := maps.Clone(framework.KubernetesReferenceAssertions)
	for kind, of := range map[string]struct {
		suffix string
		owners []metav1.OwnerReference
	}{"Secret": {"-bmc", []metav1.OwnerReference{host(false)}}, "ConfigMap": {"-ca", nil}} {
		out[kind] = func(name types.NamespacedName, got []metav1.OwnerReference) error {
			if strings.HasSuffix(name.Name, of.suffix) {
				return exactly(of.owners...)(name, got)
			}
			return framework.KubernetesReferenceAssertions[kind](name, got)
		}
	}
	return out
}

// host is a reference to an IngotHost.
func host(controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "IngotHost", Controller: ptr.To(controller)}
}

func exactly(want ...metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
	return func(name types.NamespacedName, got []metav1.OwnerReference) error {
		err := framework.HasExactOwners(got, want...)
		for _, owner := range got { // the framework looks at kinds only
			if owner.Kind == "IngotHost" && !strings.HasPrefix(name.Name, owner.Name) {
				err = errors.Join(err, errors.New("owned by another host: "+owner.Name))
			}
		}
		return err
	}
}

// finalizersOf are those in a cluster's namespace.
func finalizersOf(topology bool) []finalizers {
	core := framework.CoreFinalizersAssertionWithLegacyClusters
	if topology {
		core = framework.CoreFinalizersAssertionWithClassyClusters
	}
	one := func(name string) func(types.NamespacedName) []string {
		return func(types.NamespacedName) []string { return []string{name} }
	}
	return []finalizers{core, framework.KubeadmControlPlaneFinalizersAssertion, {
		"IngotCluster": one(infrav1.ClusterFinalizer),
		"IngotMachine": one(infrav1.MachineFinalizer),
		"IngotHost":    one(infrav1.HostFinalizer),
	}}
}
