// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// ExtensionConfig is the name of the ExtensionConfig that a release brings; the
// ClusterClass ingot-runtime has it in the names of its handlers.
const ExtensionConfig = "ingot"

// What a hook is asked about is Ingot's, or not (I20).
const (
	kindCluster         = "IngotCluster"
	kindClusterTemplate = "IngotClusterTemplate"
	kindMachineTemplate = "IngotMachineTemplate"
)

// built says whose a Cluster is that has its infrastructure: known is false before.
func built(cluster *clusterv1.Cluster) (ours, known bool) {
	ref := cluster.Spec.InfrastructureRef
	if !ref.IsDefined() {
		return false, false
	}
	return ref.Kind == kindCluster && ref.APIGroup == infrav1.GroupVersion.Group, true
}

// classIsOurs says whether clusters of a class stand on Ingot's servers.
func classIsOurs(class *clusterv1.ClusterClass) bool {
	ref := class.Spec.Infrastructure.TemplateRef
	return ref.Kind == kindClusterTemplate && groupOf(ref.APIVersion) == infrav1.GroupVersion.Group
}

// machinesAreOurs says whether the machines of a template stand on Ingot's servers. A
// control plane without machines of its own has no template.
func machinesAreOurs(ref clusterv1.ClusterClassTemplateReference) bool {
	return ref.Kind == kindMachineTemplate && groupOf(ref.APIVersion) == infrav1.GroupVersion.Group
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return gv.Group
}

// takesImages says whether the machines of a class get their images from the
// catalogue, by the version of Kubernetes.
func takesImages(class *clusterv1.ClusterClass) bool {
	for _, patch := range class.Spec.Patches {
		if patch.External != nil && strings.EqualFold(patch.External.GeneratePatchesExtension, mutation.NamePatches+"."+ExtensionConfig) {
			return true
		}
	}
	return false
}
