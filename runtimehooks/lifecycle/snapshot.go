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

// Inventory gathers what decisions are made over.
type Inventory struct {
	// Cache has Ingot's kinds and the ClusterClasses; Live is the API server.
	Cache, Live client.Reader
	// Snapshot is the inventory of a namespace, which is not changed.
	Snapshot func(ctx context.Context, namespace string) (allocation.Snapshot, error)
}

// class reads the class of a Cluster. A class that the cache does not have is read from the
// API server: it may be as new as the Cluster. A class that is missing is an error: nothing
// else shows whether the Cluster is Ingot's.
func (i Inventory) class(ctx context.Context, cluster *clusterv1.Cluster) (*clusterv1.ClusterClass, error) {
	key := cluster.GetClassKey()
	class := &clusterv1.ClusterClass{}
	err := i.Cache.Get(ctx, key, class)
	if apierrors.IsNotFound(err) {
		err = i.Live.Get(ctx, key, class)
	}
	if apierrors.IsNotFound(err) {
		return nil, tellable{fmt.Errorf("ClusterClass %s is not found: create it, or correct spec.topology.classRef", key)}
	}
	if err != nil {
		return nil, fmt.Errorf("ClusterClass %s: %w", key, err)
	}
	return class, nil
}

// blueprint reads the templates of a class, as far as they are there.
func (i Inventory) blueprint(ctx context.Context, class *clusterv1.ClusterClass) (Blueprint, error) {
	out := Blueprint{Class: class, Machines: map[string]*infrav1.IngotMachineTemplate{}}
	refs := []clusterv1.ClusterClassTemplateReference{class.Spec.ControlPlane.MachineInfrastructure.TemplateRef}
	for _, deployment := range class.Spec.Workers.MachineDeployments {
		refs = append(refs, deployment.Infrastructure.TemplateRef)
	}
	for _, ref := range refs {
		name := ref.Name
		if !machinesAreOurs(ref) || out.Machines[name] != nil {
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

func (i Inventory) get(ctx context.Context, key client.ObjectKey, into client.Object) (found bool, err error) {
	err = i.Cache.Get(ctx, key, into)
	if apierrors.IsNotFound(err) {
		err = i.Live.Get(ctx, key, into)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%T %s: %w", into, key, err)
	}
	return true, nil
}

// Images is the catalogue.
func (i Inventory) Images(ctx context.Context) ([]infrav1.IngotImage, error) {
	list := &infrav1.IngotImageList{}
	if err := i.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("image catalogue: %w", err)
	}
	return list.Items, nil
}

// wish is what a topology asks for; nil for a Cluster that is not Ingot's.
func (i Inventory) wish(ctx context.Context, cluster *clusterv1.Cluster) (*Wish, error) {
	class, err := i.class(ctx, cluster)
	if err != nil || !classIsOurs(class) {
		return nil, err
	}
	if takesImages(class) {
		if err := checkVariables(cluster.Spec.Topology); err != nil {
			return nil, err
		}
	}
	blueprint, err := i.blueprint(ctx, class)
	if err != nil {
		return nil, err
	}
	wish := wishOf(cluster, blueprint)
	return &wish, i.systems(ctx, cluster, wish.Groups)
}

// systems fills in, where nobody says which, the operating system that machines of a
// group run, as mutation will.
func (i Inventory) systems(ctx context.Context, cluster *clusterv1.Cluster, groups []Group) error {
	open := func(g Group) bool { return g.Image.Version != "" && g.Image.OS == "" }
	if !slices.ContainsFunc(groups, open) {
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
		if !open(*g) {
			continue
		}
		deployment := g.Name
		if g.ControlPlane {
			deployment = ""
		}
		g.Image.OS = mutation.SystemInUse(templates, images, deployment)
	}
	return nil
}

// Templates are the machine templates that Cluster API made for a Cluster's topology.
func (i Inventory) Templates(ctx context.Context, cluster client.ObjectKey) ([]infrav1.IngotMachineTemplate, error) {
	list := &infrav1.IngotMachineTemplateList{}
	if err := i.Cache.List(ctx, list, client.InNamespace(cluster.Namespace), client.UnsafeDisableDeepCopy, client.MatchingLabels{
		clusterv1.ClusterNameLabel: cluster.Name, clusterv1.ClusterTopologyOwnedLabel: "",
	}); err != nil {
		return nil, fmt.Errorf("machine templates of Cluster %s: %w", cluster.Name, err)
	}
	return list.Items, nil
}

// Parts of a Cluster that are upgraded apart.
type part struct {
	controlPlane, workers           bool
	controlPlaneSteps, workersSteps []string
}

// upgrade gathers what is looked at before a part of a Cluster is upgraded.
func (i Inventory) upgrade(ctx context.Context, cluster *clusterv1.Cluster, p part) (*Upgrade, error) {
	wish, err := i.wish(ctx, cluster)
	if err != nil || wish == nil {
		return nil, err
	}
	out := &Upgrade{Namespace: cluster.Namespace, ClusterName: cluster.Name, Cluster: wish.Cluster, Groups: wish.Groups,
		Target: cluster.Spec.Topology.Version, Anyway: upgradesAnyway(cluster)}
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
	has := out.holding()
	for at, g := range wish.Groups {
		// A group without machines has none to make before it gives one up.
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
