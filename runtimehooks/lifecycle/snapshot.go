// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// Inventory reads the input of the decisions.
type Inventory struct {
	// Cache reads Ingot's kinds and ClusterClasses. Live reads from the API server.
	Cache, Live client.Reader
	// Snapshot returns the inventory of a namespace, which callers must not modify.
	Snapshot func(ctx context.Context, namespace string) (allocation.Snapshot, error)
}

// class reads the ClusterClass of a Cluster. A missing class is an error, because only the class
// shows whether the Cluster is Ingot's.
func (i Inventory) class(ctx context.Context, cluster *clusterv1.Cluster) (*clusterv1.ClusterClass, error) {
	key := cluster.GetClassKey()
	class := &clusterv1.ClusterClass{}
	found, err := i.get(ctx, key, class)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, userError{fmt.Errorf("ClusterClass %s does not exist; create it, or correct spec.topology.classRef", key)}
	}
	return class, nil
}

// blueprint reads the existing templates of a class.
func (i Inventory) blueprint(ctx context.Context, class *clusterv1.ClusterClass) (Blueprint, error) {
	out := Blueprint{Class: class, Machines: map[string]*infrav1.IngotMachineTemplate{}}
	refs := []clusterv1.ClusterClassTemplateReference{class.Spec.ControlPlane.MachineInfrastructure.TemplateRef}
	for _, deployment := range class.Spec.Workers.MachineDeployments {
		refs = append(refs, deployment.Infrastructure.TemplateRef)
	}
	for _, ref := range refs {
		name := ref.Name
		if !isIngotMachineTemplate(ref) || out.Machines[name] != nil {
			continue
		}
		template := &infrav1.IngotMachineTemplate{}
		found, err := i.get(ctx, client.ObjectKey{Namespace: class.Namespace, Name: name}, template)
		if err != nil {
			return out, err
		}
		if found {
			out.Machines[name] = template
		}
	}
	template := &infrav1.IngotClusterTemplate{}
	found, err := i.get(ctx, client.ObjectKey{Namespace: class.Namespace, Name: class.Spec.Infrastructure.TemplateRef.Name}, template)
	if found {
		out.ClusterTemplate = template
	}
	return out, err
}

// get reads an object from the cache or, because it may be new, from the API server.
func (i Inventory) get(ctx context.Context, key client.ObjectKey, into client.Object) (found bool, err error) {
	err = i.Cache.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		err = i.Live.Get(ctx, key, into)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get %T %s: %w", into, key, err)
	}
	return true, nil
}

// Images lists the image catalog.
func (i Inventory) Images(ctx context.Context) ([]infrav1.IngotImage, error) {
	list := &infrav1.IngotImageList{}
	if err := i.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the image catalog: %w", err)
	}
	return list.Items, nil
}

// requirements returns the requirements of a topology, or nil if the Cluster is not Ingot's.
func (i Inventory) requirements(ctx context.Context, cluster *clusterv1.Cluster) (*Requirements, error) {
	class, err := i.class(ctx, cluster)
	if err != nil || !isIngotClass(class) {
		return nil, err
	}
	if usesCatalog(class) {
		if err := checkVariables(cluster.Spec.Topology); err != nil {
			return nil, err
		}
	}
	blueprint, err := i.blueprint(ctx, class)
	if err != nil {
		return nil, err
	}
	want := requirementsOf(cluster, blueprint)
	return &want, i.setOS(ctx, cluster, want.Groups)
}

// setOS sets the operating system of groups without one to that of their machines, as package
// mutation does.
func (i Inventory) setOS(ctx context.Context, cluster *clusterv1.Cluster, groups []Group) error {
	isUnset := func(g Group) bool { return g.Image.Version != "" && g.Image.OS == "" }
	if !slices.ContainsFunc(groups, isUnset) {
		return nil
	}
	templates, err := i.Templates(ctx, client.ObjectKeyFromObject(cluster))
	if err != nil || len(templates) == 0 {
		return err
	}
	images, err := i.Images(ctx)
	if err != nil {
		return err
	}
	for at := range groups {
		g := &groups[at]
		if !isUnset(*g) {
			continue
		}
		deployment := g.Name
		if g.ControlPlane {
			deployment = ""
		}
		g.Image.OS = mutation.OSInUse(templates, images, deployment)
	}
	return nil
}

// Templates lists the machine templates that Cluster API created for a Cluster's topology.
func (i Inventory) Templates(ctx context.Context, cluster client.ObjectKey) ([]infrav1.IngotMachineTemplate, error) {
	list := &infrav1.IngotMachineTemplateList{}
	if err := i.Cache.List(ctx, list, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy, client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster.Name, clusterv1.ClusterTopologyOwnedLabel: "",
	}); err != nil {
		return nil, fmt.Errorf("list the machine templates of Cluster %s: %w", cluster.Name, err)
	}
	return list.Items, nil
}

// part selects the parts of a Cluster to upgrade, and their versions.
type part struct {
	controlPlane, workers           bool
	controlPlaneSteps, workersSteps []string
}

// upgrade reads the input of the decision about an upgrade. It returns nil if the Cluster is not
// Ingot's.
func (i Inventory) upgrade(ctx context.Context, cluster *clusterv1.Cluster, p part) (*Upgrade, error) {
	want, err := i.requirements(ctx, cluster)
	if err != nil || want == nil {
		return nil, err
	}
	out := &Upgrade{Namespace: cluster.Namespace, ClusterName: cluster.Name, Cluster: want.Cluster, Groups: want.Groups,
		Target: cluster.Spec.Topology.Version, Forced: isUpgradeForced(cluster)}
	ingotCluster := &infrav1.IngotCluster{}
	found, err := i.get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.InfrastructureRef.Name}, ingotCluster)
	if err != nil {
		return nil, err
	}
	if found {
		out.Cluster = ingotCluster.Spec
	}
	surges, err := i.surges(ctx, cluster, p)
	if err != nil {
		return nil, err
	}
	if out.Images, err = i.Images(ctx); err != nil {
		return nil, err
	}
	if out.Snapshot, err = i.Snapshot(ctx, cluster.Namespace); err != nil {
		return nil, err
	}
	has := out.machineCounts()
	for at, g := range want.Groups {
		// A group without machines does not surge.
		step := Step{Group: g, Versions: p.workersSteps, Surge: surges[g.Name] && (g.Count > 0 || has[at] > 0)}
		if g.ControlPlane {
			step.Versions = p.controlPlaneSteps
		}
		if g.ControlPlane && p.controlPlane || !g.ControlPlane && p.workers {
			out.Steps = append(out.Steps, step)
		}
	}
	return out, nil
}
