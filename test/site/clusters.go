// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package site

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PlainFlavor stands for cluster-template.yaml, whose flavor has no name.
const PlainFlavor = "-"

// A Cluster is what is asked of a template of the release.
type Cluster struct {
	Name string
	// Namespace; the site's if empty.
	Namespace string
	// Flavor of the template; "external-endpoint" if empty: endpoints of a World
	// are load balancers of their own. PlainFlavor is the template without one.
	Flavor string
	// ControlPlanes and Workers are numbers of machines.
	ControlPlanes, Workers int
	// Kubernetes is the version; DefaultKubernetes if empty.
	Kubernetes string
	// Endpoint of the API server; reserved if invalid.
	Endpoint netip.AddrPort
	// Variables of the template besides; they win.
	Variables map[string]string
}

// complete fills in what was left empty.
func (s *Site) complete(t testing.TB, c Cluster) Cluster {
	t.Helper()
	if c.Namespace == "" {
		c.Namespace = s.Namespace
	}
	if c.Flavor == "" {
		c.Flavor = "external-endpoint"
	}
	if c.Kubernetes == "" {
		c.Kubernetes = DefaultKubernetes
	}
	if !c.Endpoint.IsValid() {
		endpoint, err := s.World.Workload.Reserve()
		check(t, err)
		c.Endpoint = endpoint
	}
	return c
}

// Generate runs "clusterctl generate cluster" and returns the manifest, and what
// was asked for with nothing left empty.
func (s *Site) Generate(t testing.TB, c Cluster) (Cluster, []byte) {
	t.Helper()
	c = s.complete(t, c)
	url, checksum := s.World.Image(t, c.Kubernetes)
	variables := map[string]string{
		"CONTROL_PLANE_ENDPOINT_HOST": c.Endpoint.Addr().String(), "CONTROL_PLANE_ENDPOINT_PORT": strconv.Itoa(int(c.Endpoint.Port())),
		"INGOT_IMAGE_URL": url, "INGOT_IMAGE_CHECKSUM": checksum,
	}
	maps.Copy(variables, c.Variables)
	out := s.Clusterctl(t, variables, "generate", "cluster", c.Name, "--infrastructure=ingot", "--flavor="+strings.TrimPrefix(c.Flavor, PlainFlavor),
		"--target-namespace="+c.Namespace, "--kubernetes-version="+c.Kubernetes,
		"--control-plane-machine-count="+strconv.Itoa(c.ControlPlanes), "--worker-machine-count="+strconv.Itoa(c.Workers))
	return c, out.Stdout
}

// CreateCluster is "clusterctl generate cluster | kubectl apply".
func (s *Site) CreateCluster(t testing.TB, c Cluster) Cluster {
	t.Helper()
	c, manifest := s.Generate(t, c)
	s.Apply(t, manifest)
	return c
}

// Machines of a cluster, control plane and workers.
func (s *Site) Machines(ctx context.Context, c Cluster) (controlPlanes, workers []clusterv1.Machine, err error) {
	list := &clusterv1.MachineList{}
	if err := s.Client.List(ctx, list, client.InNamespace(c.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: c.Name}); err != nil {
		return nil, nil, err
	}
	for i := range list.Items {
		if _, ok := list.Items[i].Labels[clusterv1.MachineControlPlaneLabel]; ok {
			controlPlanes = append(controlPlanes, list.Items[i])
		} else {
			workers = append(workers, list.Items[i])
		}
	}
	return controlPlanes, workers, nil
}

// Running says what a cluster lacks: as many machines as it asks for, each Running
// with its Node, and a control plane that Cluster API finds available.
func (s *Site) Running(c Cluster) Missing {
	return func(ctx context.Context) (string, error) {
		controlPlanes, workers, err := s.Machines(ctx, c)
		if err != nil {
			return "", err
		}
		for _, m := range append(controlPlanes, workers...) {
			if m.Status.Phase != string(clusterv1.MachinePhaseRunning) || !m.Status.NodeRef.IsDefined() {
				return fmt.Sprintf("machine %s is %s: %s", m.Name, m.Status.Phase, conditions.GetMessage(&m, clusterv1.MachineReadyCondition)), nil
			}
		}
		if len(controlPlanes) != c.ControlPlanes || len(workers) != c.Workers {
			return fmt.Sprintf("%d control planes and %d workers, want %d and %d", len(controlPlanes), len(workers), c.ControlPlanes, c.Workers), nil
		}
		return s.controlPlane(ctx, c)
	}
}

// controlPlane says what the KubeadmControlPlane of a cluster lacks.
func (s *Site) controlPlane(ctx context.Context, c Cluster) (string, error) {
	cluster, kcp := &clusterv1.Cluster{}, &controlplanev1.KubeadmControlPlane{}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Name}, cluster); err != nil {
		return "", err
	}
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: cluster.Spec.ControlPlaneRef.Name}, kcp); err != nil {
		return "", err
	}
	if !conditions.IsTrue(kcp, controlplanev1.KubeadmControlPlaneAvailableCondition) {
		return "control plane: " + conditions.GetMessage(kcp, controlplanev1.KubeadmControlPlaneAvailableCondition), nil
	}
	if ready := int(ptr.Deref(kcp.Status.ReadyReplicas, 0)); ready != c.ControlPlanes {
		return fmt.Sprintf("%d of %d control planes ready", ready, c.ControlPlanes), nil
	}
	return "", nil
}

// Gone says whether the Cluster is still there.
func (s *Site) Gone(c Cluster) Missing {
	return func(ctx context.Context) (string, error) {
		cluster := &clusterv1.Cluster{}
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Name}, cluster)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("cluster %s is %s: %s", c.Name, cluster.Status.Phase, conditions.GetMessage(cluster, clusterv1.ClusterDeletingCondition)), nil
	}
}

// Nodes of a cluster, past its API server.
func (s *Site) Nodes(t testing.TB, c Cluster) []corev1.Node {
	t.Helper()
	nodes, err := s.World.Workload.Nodes(t.Context(), c.Endpoint)
	check(t, err)
	return nodes
}
