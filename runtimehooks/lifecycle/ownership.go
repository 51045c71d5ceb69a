// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// ExtensionConfig is the name of the ExtensionConfig in a release. The handler names in the
// ClusterClass ingot-runtime contain it.
const ExtensionConfig = "ingot"

// Kinds of Ingot. Hooks ignore the objects of other providers (I20).
const (
	kindCluster         = "IngotCluster"
	kindClusterTemplate = "IngotClusterTemplate"
	kindMachineTemplate = "IngotMachineTemplate"
)

// isIngotCluster reports whether the Cluster's infrastructureRef is an IngotCluster.
func isIngotCluster(cluster *clusterv1.Cluster) bool {
	ref := cluster.Spec.InfrastructureRef
	return ref.Kind == kindCluster && ref.APIGroup == infrav1.GroupVersion.Group
}

// isIngotClass reports whether the infrastructure of a class is an IngotClusterTemplate.
func isIngotClass(class *clusterv1.ClusterClass) bool {
	ref := class.Spec.Infrastructure.TemplateRef
	return ref.Kind == kindClusterTemplate && groupOf(ref.APIVersion) == infrav1.GroupVersion.Group
}

// isIngotMachineTemplate reports whether ref is an IngotMachineTemplate. A hosted control plane has
// no template.
func isIngotMachineTemplate(ref clusterv1.ClusterClassTemplateReference) bool {
	return ref.Kind == kindMachineTemplate && groupOf(ref.APIVersion) == infrav1.GroupVersion.Group
}

func groupOf(apiVersion string) string {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return ""
	}
	return gv.Group
}

// usesCatalog reports whether the class uses the extension's patches, which choose images from the
// catalog by Kubernetes version.
func usesCatalog(class *clusterv1.ClusterClass) bool {
	return slices.ContainsFunc(class.Spec.Patches, func(p clusterv1.ClusterClassPatch) bool {
		return p.External != nil && strings.EqualFold(p.External.GeneratePatchesExtension, mutation.NamePatches+"."+ExtensionConfig)
	})
}
