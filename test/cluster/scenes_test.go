// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/lab/podnet"
	"github.com/ingot-metal/ingot/test/site"
)

func register(t *testing.T, s *stage) {
	s.site.Register(t, s.world.Servers()...)
	s.site.AwaitFor(t, patience, "free hosts", s.site.Free(s.world.Servers()...))
}

// create is "clusterctl generate cluster | kubectl apply" with the default template,
// and what the book says an operator does then: the network plugin.
func create(t *testing.T, s *stage) {
	s.cluster = s.site.CreateCluster(t, site.Cluster{
		Name: "c1", Flavor: site.PlainFlavor, ControlPlanes: 1, Workers: 1, Kubernetes: s.version, Endpoint: endpoint,
		Variables: map[string]string{"POD_CIDR": `["` + pods + `"]`, "INGOT_KUBE_VIP_IMAGE": kubeVIPImage(t, s.version)},
	})
	s.workload = connect(t, s)
	manifest, err := podnet.Manifest(pods)
	check(t, err)
	s.site.AwaitFor(t, patience, "the network plugin", func(ctx context.Context) (string, error) {
		if err := s.workload.apply(ctx, manifest); err != nil {
			return "an API server that takes it", err
		}
		return "", nil
	})
	s.site.AwaitFor(t, patience, "ready Nodes", s.workload.ready(&s.cluster))
	s.site.AwaitFor(t, patience, "machines that run", s.site.Running(s.cluster))
}

// identify: each Machine's Node has the Machine's provider ID and the host's name,
// and every Node is some Machine's. Nobody but the kubelet wrote the provider ID.
func identify(t *testing.T, s *stage) {
	controlPlanes, workers, err := s.site.Machines(t.Context(), s.cluster)
	check(t, err)
	want := map[string]string{}
	for _, m := range append(controlPlanes, workers...) {
		want[m.Status.NodeRef.Name] = m.Spec.ProviderID
	}
	nodes, err := s.workload.nodes(t.Context())
	check(t, err)
	got := map[string]string{}
	for _, n := range nodes {
		got[n.Name] = n.Spec.ProviderID
		for _, entry := range n.ManagedFields {
			if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.String(), `"f:providerID"`) && entry.Manager != "kubelet" {
				t.Errorf("the provider ID of Node %s was written by %s", n.Name, entry.Manager)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("provider IDs by Node (-Machines +Nodes):\n%s", diff)
	}
	s.ready = len(got)
}

// runPod: a Deployment's pod is scheduled to the worker and gets an address of the
// network.
func runPod(t *testing.T, s *stage) {
	labels := map[string]string{"app": "pause"}
	image, err := s.workload.imageOf(t.Context(), "/pause:")
	check(t, err)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pause"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "pause", Image: image}}},
			},
		},
	}
	check(t, s.workload.client.Create(t.Context(), deployment))
	s.site.AwaitFor(t, patience, "a pod", func(ctx context.Context) (string, error) {
		list := &corev1.PodList{}
		if err := s.workload.client.List(ctx, list, client.InNamespace("default"), client.MatchingLabels(labels)); err != nil {
			return "", err
		}
		for _, p := range list.Items {
			if p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" {
				continue
			}
			t.Logf("%s runs on %s with %s", p.Name, p.Spec.NodeName, p.Status.PodIP)
			if ip, err := netip.ParseAddr(p.Status.PodIP); err != nil || !netip.MustParsePrefix(pods).Contains(ip) {
				t.Errorf("its address is %s, want one of %s", p.Status.PodIP, pods)
			}
			node := &corev1.Node{}
			if err := s.workload.client.Get(ctx, client.ObjectKey{Name: p.Spec.NodeName}, node); err != nil {
				return "", err
			}
			if _, is := node.Labels["node-role.kubernetes.io/control-plane"]; is {
				t.Errorf("it runs on %s, a control plane", node.Name)
			}
			return "", nil
		}
		return fmt.Sprintf("%d pods, none runs", len(list.Items)), nil
	})
}

// remove: the cluster goes, and its servers are wiped, off and free again.
func remove(t *testing.T, s *stage) {
	s.site.Kubectl(t, "delete", "cluster", s.cluster.Name, "--wait=false")
	s.site.AwaitFor(t, patience, "the cluster's end", s.site.Gone(s.cluster))
	s.site.AwaitFor(t, patience, "hosts given back, wiped",
		site.All(s.site.Free(s.world.Servers()...), s.site.Wiped(s.world.Servers()...)))
}
