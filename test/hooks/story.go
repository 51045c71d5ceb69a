// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Image is the IngotImage that Built adds to the catalogue.
const Image = "debian-v1.36.1"

// templates that Cluster API made for a Cluster.
func (s *Site) templates(ctx context.Context, cluster *clusterv1.Cluster) ([]infrav1.IngotMachineTemplate, error) {
	list := &infrav1.IngotMachineTemplateList{}
	err := s.Client.List(ctx, list, client.InNamespace(Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name})
	return list.Items, err
}

// Held waits until a Cluster waits, and its condition says all of the words.
func (s *Site) Held(t testing.TB, cluster *clusterv1.Cluster, words ...string) {
	t.Helper()
	s.Await(t, "the hold of "+cluster.Name, func(ctx context.Context) string {
		status, message := s.TopologyReconciled(ctx, cluster)
		for _, word := range words {
			if status != metav1.ConditionFalse || !strings.Contains(message, word) {
				return fmt.Sprintf("%s %q does not say %q", status, message, word)
			}
		}
		return ""
	})
}

// Built takes a Cluster of the class ingot-runtime from nothing to its templates: it is
// held for want of an image, then of hosts, and made when the last is there.
func (s *Site) Built(t testing.TB) (*clusterv1.Cluster, []infrav1.IngotMachineTemplate) {
	t.Helper()
	s.Class(t, "ingot-runtime")
	cluster := s.Cluster(t, "c1", nil)
	s.Held(t, cluster, "no IngotImage for Kubernetes v1.36.1 on amd64")
	s.image(t, Image, "v1.36.1")
	s.Host(t, "h1", nil)
	s.Held(t, cluster, "2 hosts are missing", "machine deployment md-0 lacks 2 of 2 hosts")
	if made, err := s.templates(t.Context(), cluster); err != nil || len(made) > 0 {
		t.Errorf("%d templates were made before the Cluster was let go (%v)", len(made), err)
	}
	s.Host(t, "h2", nil)
	s.Host(t, "h3", nil)
	var made []infrav1.IngotMachineTemplate
	s.Await(t, "the templates of both groups", func(ctx context.Context) string {
		var err error
		if made, err = s.templates(ctx, cluster); err != nil {
			return err.Error()
		}
		if _, message := s.TopologyReconciled(ctx, cluster); len(made) != 2 {
			return fmt.Sprintf("%d templates: %s", len(made), message)
		}
		return ""
	})
	return cluster, made
}

// Retained deletes a Cluster that is to be retained, and takes that back once the
// deletion is held; it returns when the Cluster is gone.
func (s *Site) Retained(t testing.TB, cluster *clusterv1.Cluster) {
	t.Helper()
	annotate := func(value any) {
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{infrav1.RetainAnnotation: value}}}
		data, err := json.Marshal(patch)
		must(t, err)
		must(t, s.Client.Patch(t.Context(), cluster, client.RawPatch(types.MergePatchType, data)))
	}
	annotate("a person said so")
	must(t, s.Client.Delete(t.Context(), cluster))
	s.Await(t, "the hold of the deletion", func(context.Context) string {
		for _, call := range s.Calls() {
			if strings.Contains(call.Path, "beforeclusterdelete") && strings.Contains(string(call.Answer), infrav1.RetainAnnotation) {
				return ""
			}
		}
		return "the hook was not called"
	})
	infra := &infrav1.IngotClusterList{}
	must(t, s.Client.List(t.Context(), infra, client.InNamespace(Namespace)))
	if len(infra.Items) != 1 || !infra.Items[0].DeletionTimestamp.IsZero() {
		t.Errorf("the infrastructure of a retained Cluster: %+v", infra.Items)
	}
	annotate(nil)
	s.Await(t, "the end of the Cluster", func(ctx context.Context) string {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(cluster), &clusterv1.Cluster{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("it is there (%v)", err)
	})
}

// Upgraded takes a Cluster of one control plane from one version to the next: the upgrade is
// held while the catalogue lacks its image, and let go when that is there. No server boots
// here, so that the control plane is paused, and its status is what it would be; all that
// asks and waits is Cluster API's.
func (s *Site) Upgraded(t testing.TB, from, to string) {
	t.Helper()
	cluster := s.Cluster(t, "upgraded", func(c *clusterv1.Cluster) {
		c.Spec.Topology.Version, c.Spec.Topology.Workers = from, clusterv1.WorkersTopology{}
	})
	kcp := s.pausedControlPlane(t, cluster, from)
	s.Await(t, "the change of the version", func(ctx context.Context) string {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err.Error()
		}
		cluster.Spec.Topology.Version = to
		return text(s.Client.Update(ctx, cluster))
	})
	missing := "no IngotImage for Kubernetes " + to + " on amd64"
	s.Await(t, "the hold of the upgrade", func(context.Context) string {
		for _, call := range s.Calls() {
			if strings.Contains(call.Path, "beforeclusterupgrade") && strings.Contains(string(call.Answer), missing) {
				return ""
			}
		}
		_, message := s.TopologyReconciled(t.Context(), cluster)
		return "the hook was not called: " + message
	})
	s.Held(t, cluster, missing)
	must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(kcp), kcp))
	if kcp.Spec.Version != from {
		t.Errorf("the control plane is to run %s while its upgrade is held", kcp.Spec.Version)
	}
	s.image(t, "debian-"+to, to)
	s.Await(t, "the upgrade", func(ctx context.Context) string {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(kcp), kcp); err != nil || kcp.Spec.Version == to {
			return text(err)
		}
		_, message := s.TopologyReconciled(ctx, cluster)
		return message
	})
}

// pausedControlPlane waits for the control plane that Cluster API makes for a topology, and
// makes it look as if its one machine ran the version.
func (s *Site) pausedControlPlane(t testing.TB, cluster *clusterv1.Cluster, version string) *controlplanev1.KubeadmControlPlane {
	t.Helper()
	kcp := &controlplanev1.KubeadmControlPlane{}
	s.Await(t, "the control plane of "+cluster.Name, func(ctx context.Context) string {
		if _, message := s.TopologyReconciled(ctx, cluster); !cluster.Spec.ControlPlaneRef.IsDefined() {
			return message
		}
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: cluster.Spec.ControlPlaneRef.Name}, kcp); err != nil {
			return err.Error()
		}
		metav1.SetMetaDataAnnotation(&kcp.ObjectMeta, clusterv1.PausedAnnotation, "")
		return text(s.Client.Update(ctx, kcp))
	})
	s.Await(t, "the status of the control plane", func(ctx context.Context) string {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(kcp), kcp); err != nil {
			return err.Error()
		}
		one := ptr.To[int32](1)
		kcp.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
		kcp.Status.Version, kcp.Status.ObservedGeneration = version, kcp.Generation
		kcp.Status.Replicas, kcp.Status.ReadyReplicas, kcp.Status.AvailableReplicas, kcp.Status.UpToDateReplicas = one, one, one, one
		return text(s.Client.Status().Update(ctx, kcp))
	})
	s.Await(t, "the infrastructure of "+cluster.Name, func(ctx context.Context) string {
		infra := &infrav1.IngotCluster{}
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: cluster.Spec.InfrastructureRef.Name}, infra); err != nil {
			return err.Error()
		}
		infra.Status.Initialization.Provisioned = ptr.To(true)
		return text(s.Client.Status().Update(ctx, infra))
	})
	return kcp
}

// image adds one to the catalogue.
func (s *Site) image(t testing.TB, name, version string) {
	t.Helper()
	must(t, s.Client.Create(t.Context(), &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.IngotImageSpec{
		KubernetesVersion: version, Architecture: "amd64", OS: "debian-12", URL: "https://images.example/os.raw.zst", Checksum: checksum,
	}}))
}
