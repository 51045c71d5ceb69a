// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/podnet"
	"github.com/ingot-metal/ingot/test/site"
)

func register(t *testing.T, s *stage) {
	s.site.Register(t, s.world.Servers()...)
	s.site.AwaitFor(t, patience, "free hosts", s.site.Free(s.world.Servers()...))
}

// create is "clusterctl generate cluster | kubectl apply", and what the book says an
// operator does then: the network plugin.
func create(t *testing.T, s *stage) {
	s.cluster = s.site.CreateCluster(t, site.Cluster{
		Name: "c1", Flavor: s.flavor, ControlPlanes: s.controlPlanes, Workers: s.options.workers, Kubernetes: s.first(), Endpoint: endpoint,
		Variables: map[string]string{
			"POD_CIDR": `["` + pods + `"]`, "INGOT_KUBE_VIP_IMAGE": kubeVIPImage(t, disk(t, s.first())),
			// Emulated servers stand still for a second now and then.
			"INGOT_ETCD_HEARTBEAT_MILLISECONDS": "1000", "INGOT_ETCD_ELECTION_MILLISECONDS": "10000",
			"INGOT_LEASE_SECONDS": "60", "INGOT_LEASE_RENEW_SECONDS": "45", "INGOT_LEASE_RETRY_SECONDS": "9",
			"INGOT_KEY_ALGORITHM": string(bootstrapv1.EncryptionAlgorithmECDSAP256),
			"INGOT_NODE_LABELS":   "[" + chosenDomain + "/*]",
			// Three times what a server takes here, and less than the patience of the test: one
			// whose kubeadm gave up joining is replaced.
			"INGOT_NODE_STARTUP_TIMEOUT_SECONDS": "1200",
		},
	})
	s.workload = connect(t, s)
	s.recorder.watch(s.workload)
	manifest, err := podnet.Manifest(pods, endpoint.String())
	check(t, err)
	s.site.AwaitFor(t, patience, "the network plugin", func(ctx context.Context) (string, error) {
		if err := s.workload.apply(ctx, manifest); err != nil {
			return "an API server that takes it", err
		}
		return "", nil
	})
	s.awaitCluster(t)
}

// awaitCluster waits until it is as it should be: Nodes as many as asked for, ready,
// and Machines that run. Control planes join one after the other.
func (s *stage) awaitCluster(t *testing.T) {
	t.Helper()
	s.site.AwaitFor(t, time.Duration(s.controlPlanes)*patience, "ready Nodes", s.workload.ready(&s.cluster))
	s.site.AwaitFor(t, patience, "machines that run", s.site.Running(s.cluster))
}

// A node is what is expected of one.
type identity struct{ ProviderID, Zone, Version, WrittenBy string }

// identify: each Machine's Node has the Machine's provider ID and version, and its
// host's rack as zone, and every Node is some Machine's. Nobody but the kubelet wrote
// the provider ID, where it was told. Each server has told that kubeadm succeeded.
func identify(t *testing.T, s *stage) {
	s.site.AwaitFor(t, patience, "Nodes that are what their Machines say", func(ctx context.Context) (string, error) {
		want, err := s.identities(ctx)
		if err != nil {
			return "", err
		}
		nodes, err := s.workload.nodes(ctx)
		if err != nil {
			return "", err
		}
		got := map[string]identity{}
		for _, n := range nodes {
			got[n.Name] = identity{n.Spec.ProviderID, n.Labels[corev1.LabelTopologyZone], n.Status.NodeInfo.KubeletVersion, writerOfProviderID(n)}
		}
		s.ready = len(got)
		return cmp.Diff(want, got), nil
	})
	s.site.AwaitFor(t, patience, "servers that say that their bootstrap succeeded", s.bootstrapped)
}

// bootstrapped says whose system has not told that kubeadm's sentinel file is there.
func (s *stage) bootstrapped(ctx context.Context) (string, error) {
	controlPlanes, workers, err := s.site.Machines(ctx, s.cluster)
	if err != nil {
		return "", err
	}
	for _, m := range append(controlPlanes, workers...) {
		id, err := infrav1.ParseProviderID(m.Spec.ProviderID)
		if err != nil {
			return "", err
		}
		host := &infrav1.IngotHost{}
		if err := s.site.Client.Get(ctx, client.ObjectKey{Namespace: s.site.Namespace, Name: id.Host}, host); err != nil {
			return "", err
		}
		if booted := host.Status.Booted; booted == nil || booted.Sentinel != infrav1.SentinelPresent {
			return fmt.Sprintf("host %s says of the system on it: %+v", id.Host, booted), nil
		}
	}
	return "", nil
}

// identities are those that Nodes should have, by name.
func (s *stage) identities(ctx context.Context) (map[string]identity, error) {
	controlPlanes, workers, err := s.site.Machines(ctx, s.cluster)
	if err != nil {
		return nil, err
	}
	want := map[string]identity{}
	for _, m := range append(controlPlanes, workers...) {
		id, err := infrav1.ParseProviderID(m.Spec.ProviderID)
		if err != nil {
			return nil, err
		}
		writer := kubelet
		if s.isNameless(m) {
			writer = "ingot"
		}
		want[m.Status.NodeRef.Name] = identity{m.Spec.ProviderID, s.world.Rack(id.Host), m.Spec.Version, writer}
	}
	return want, nil
}

// kubelet is the field manager of the kubelet.
const kubelet = "kubelet"

// writerOfProviderID is the kubelet, or somebody else, who can only be Ingot: Cluster
// API writes none.
func writerOfProviderID(n corev1.Node) string {
	written := func(entry fieldsEntry) bool { return entry.has("f:providerID") }
	for _, entry := range n.ManagedFields {
		if written(fieldsEntry(entry)) && entry.Manager == kubelet {
			return kubelet
		}
		if written(fieldsEntry(entry)) {
			return "ingot"
		}
	}
	return "nobody"
}

// runPod: a Deployment's pod is scheduled to the worker, gets an address of the
// network, and answers at the port of each node, as kube-proxy and the network plugin
// lead there.
func runPod(t *testing.T, s *stage) {
	check(t, s.workload.sayHello(t.Context(), 1))
	s.site.AwaitFor(t, patience, "a pod", s.greeters(t, 1))
	s.site.AwaitFor(t, patience, "its answer at every node", s.workload.answers)
}

// greeters says what is missing until that many pods run, all on workers.
func (s *stage) greeters(t *testing.T, count int) site.Missing {
	return func(ctx context.Context) (string, error) {
		list, err := s.workload.greeters(ctx)
		if err != nil {
			return "", err
		}
		running := slices.DeleteFunc(list, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" })
		if len(running) != count {
			return fmt.Sprintf("%d of %d pods run", len(running), count), nil
		}
		for _, p := range running {
			t.Logf("%s runs on %s with %s", p.Name, p.Spec.NodeName, p.Status.PodIP)
			if ip, err := netip.ParseAddr(p.Status.PodIP); err != nil || !netip.MustParsePrefix(pods).Contains(ip) {
				t.Errorf("its address is %s, want one of %s", p.Status.PodIP, pods)
			}
			if _, is := s.controlPlaneNodes(t)[p.Spec.NodeName]; is {
				t.Errorf("it runs on %s, a control plane", p.Spec.NodeName)
			}
		}
		return "", nil
	}
}

// controlPlaneNodes are the names of the Nodes of control planes.
func (s *stage) controlPlaneNodes(t *testing.T) map[string]bool {
	t.Helper()
	controlPlanes, _, err := s.site.Machines(t.Context(), s.cluster)
	check(t, err)
	names := map[string]bool{}
	for _, m := range controlPlanes {
		names[m.Status.NodeRef.Name] = true
	}
	return names
}

// workers of the cluster, the first ones made first.
func (s *stage) workers(t *testing.T) []clusterv1.Machine {
	t.Helper()
	_, workers, err := s.site.Machines(t.Context(), s.cluster)
	check(t, err)
	slices.SortFunc(workers, func(a, b clusterv1.Machine) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return workers
}

// hostOf is the name of a Machine's host.
func hostOf(t *testing.T, m clusterv1.Machine) string {
	t.Helper()
	id, err := infrav1.ParseProviderID(m.Spec.ProviderID)
	check(t, err)
	return id.Host
}

// remove: the cluster goes, and its servers are wiped, off and free again.
func remove(t *testing.T, s *stage) {
	s.site.Kubectl(t, "delete", "cluster", s.cluster.Name, "--wait=false")
	s.site.AwaitFor(t, patience, "the cluster's end", s.site.Gone(s.cluster))
	s.site.AwaitFor(t, patience, "hosts given back, wiped",
		site.All(s.site.Free(s.world.Servers()...), s.site.Wiped(s.world.Servers()...)))
}
