// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/needs"
	"github.com/ingot-metal/ingot/test/site"
)

// TestClusterAPI is the drill with Cluster API's managers: what is deleted goes through the
// controllers of Cluster, KubeadmControlPlane, MachineDeployment and Machine, and the nodes of
// the workload clusters are real to these.
func TestClusterAPI(t *testing.T) {
	needs.Full(t)
	needs.ClusterAPI(t)
	scenes := []struct {
		name string
		play func(*testing.T, *estate)
	}{
		{"machines", testMachines}, {"cluster", testCluster}, {"app", testApp}, {"namespace", testClusterNamespace}, {"credentials", testCredentials},
		// The last one stops the manager of all, and so has the site itself.
		{"manager-down", testClusterManagerDown},
	}
	world := site.NewWorld(t, site.WorldConfig{Racks: len(scenes), ServersPerRack: 3})
	s := site.Start(t, site.Config{World: world})
	run := func(n int) func(*testing.T) {
		return func(t *testing.T) {
			e := &estate{Site: s, row: n + 1}
			if n < len(scenes)-1 {
				t.Parallel()
				e.Site = s.In(t, scenes[n].name)
			}
			e.begin(t)
			scenes[n].play(t, e)
		}
	}
	t.Run("Scenes", func(t *testing.T) {
		for n := range scenes[:len(scenes)-1] {
			t.Run(scenes[n].name, run(n))
		}
	})
	t.Run(scenes[len(scenes)-1].name, run(len(scenes)-1))
}

// estate is a namespace with three hosts, and a cluster of a control plane and a worker.
type estate struct {
	*site.Site
	row     int
	cluster site.Cluster
	// manifest is what was applied for the cluster.
	manifest []client.Object
}

// servers of the estate.
func (e *estate) servers() (names []string) {
	for n := range 3 {
		names = append(names, fmt.Sprintf("r%d-s%d", e.row, n+1))
	}
	return names
}

// begin registers the hosts and makes the cluster.
func (e *estate) begin(t *testing.T) {
	t.Helper()
	e.Register(t, e.servers()...)
	e.Await(t, "free hosts", e.Free(e.servers()...))
	c, manifest := e.Generate(t, site.Cluster{Name: fmt.Sprintf("c%d", e.row), ControlPlanes: 1, Workers: 1})
	for document := range strings.SplitSeq(string(manifest), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		if object.GetKind() != "" {
			e.manifest = append(e.manifest, object)
		}
	}
	e.Apply(t, manifest)
	e.cluster = c
	e.Await(t, "machines that run", e.Running(c))
}

// used are the hosts that machines have.
func (e *estate) used(t *testing.T) (names []string) {
	t.Helper()
	for _, name := range e.servers() {
		if e.Host(t, name).Spec.Claim != nil {
			names = append(names, name)
		}
	}
	return names
}

// clean wants servers that are off and have nothing of Ingot's on their disks.
func (e *estate) clean(t *testing.T) {
	t.Helper()
	e.Await(t, "servers that are clean and off", func(ctx context.Context) (string, error) {
		for _, name := range e.servers() {
			if e.World.Server(name).Powered() {
				return "server " + name + " is on", nil
			}
		}
		return e.Wiped(e.servers()...)(ctx)
	})
}

// worker is the Machine of the only worker.
func (e *estate) worker(t *testing.T) *clusterv1.Machine {
	t.Helper()
	_, workers, err := e.Machines(t.Context(), e.cluster)
	if err != nil || len(workers) != 1 {
		t.Fatalf("workers %v, %v", workers, err)
	}
	return &workers[0]
}

// A Machine and a MachineDeployment that are deleted in the foreground give their hosts back
// clean, and a new Machine has a host again. The IngotMachine of a Machine that lives is refused
// in the foreground, too.
func testMachines(t *testing.T, e *estate) {
	machine := e.worker(t)
	infra := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name}}
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		if err := e.Client.Delete(t.Context(), infra.DeepCopy(), client.PropagationPolicy(policy)); !apierrors.IsInvalid(err) {
			t.Errorf("the IngotMachine of a Machine that lives is deleted with policy %s: %v", policy, err)
		}
	}
	if err := e.Client.Delete(t.Context(), machine, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	e.Await(t, "another worker instead", func(ctx context.Context) (string, error) {
		_, workers, err := e.Machines(ctx, e.cluster)
		if err != nil || len(workers) != 1 || workers[0].UID == machine.UID {
			return fmt.Sprintf("%d workers", len(workers)), err
		}
		return e.Running(e.cluster)(ctx)
	})
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.cluster.Name + "-md-0"}}
	e.Await(t, "the MachineDeployment to be gone", prune(e.Client, metav1.DeletePropagationForeground, deployment))
	e.Await(t, "two free hosts", func(ctx context.Context) (string, error) {
		if names := e.used(t); len(names) != 1 {
			return fmt.Sprintf("hosts %v are used", names), nil
		}
		return "", nil
	})
	e.end(t)
}

// end deletes the Cluster as people do.
func (e *estate) end(t *testing.T) {
	t.Helper()
	e.Kubectl(t, "delete", "cluster", "-n", e.Namespace, e.cluster.Name, "--wait=false")
	e.Await(t, "the cluster's end", e.Gone(e.cluster))
	e.Await(t, "hosts given back", e.Free(e.servers()...))
	e.clean(t)
}

// A Cluster that is deleted in the foreground gives its hosts back clean.
func testCluster(t *testing.T, e *estate) {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.cluster.Name}}
	e.Await(t, "the Cluster to be gone", prune(e.Client, metav1.DeletePropagationForeground, cluster))
	e.Await(t, "hosts given back", e.Free(e.servers()...))
	e.clean(t)
}

// All that stands in Git for a site is deleted at once in the foreground, again and again:
// Secrets and CAs first, hosts, and all objects of the cluster, as Argo CD does with an app.
func testApp(t *testing.T, e *estate) {
	var app []client.Object
	for _, name := range e.servers() {
		app = append(app, e.HostObjects(name)...)
	}
	e.Await(t, "the app to be gone", prune(e.Client, metav1.DeletePropagationForeground, append(app, e.manifest...)...))
	e.clean(t)
}

// A namespace with a cluster that runs is gone in the end.
func testClusterNamespace(t *testing.T, e *estate) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.Namespace}}
	if err := e.Client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	e.Await(t, "the namespace to be gone", func(ctx context.Context) (string, error) {
		err := e.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		left := "it is there"
		for _, name := range e.servers() {
			left += "; " + says(ctx, e.Client, client.ObjectKey{Namespace: e.Namespace, Name: name})
		}
		return left, err
	})
	e.clean(t)
}

// A Cluster is deleted whose worker has lost the credentials of its BMC: a user removed the
// Secret's finalizer, too. The host waits and says what helps. The remedy is applied, and works.
func testCredentials(t *testing.T, e *estate) {
	machine := e.worker(t)
	id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: id.Host + "-bmc"}}
	if err := e.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.Patch(t.Context(), secret, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.cluster.Name}}
	deleting := prune(e.Client, metav1.DeletePropagationForeground, cluster)
	e.Await(t, "the host to say what helps", func(ctx context.Context) (string, error) {
		_, err := deleting(ctx)
		text := says(ctx, e.Client, client.ObjectKey{Namespace: e.Namespace, Name: id.Host})
		if !strings.Contains(text, infrav1.ReasonCredentialsMissing) || !strings.Contains(text, "create") || !strings.Contains(text, secret.Name) {
			return text, err
		}
		t.Logf("host %s: %s", id.Host, text)
		return "", err
	})
	for _, object := range e.HostObjects(id.Host) {
		if object, ok := object.(*corev1.Secret); ok {
			e.Create(t, object)
		}
	}
	e.Await(t, "the Cluster to be gone", deleting)
	e.Await(t, "hosts given back", e.Free(e.servers()...))
	e.clean(t)
}

// A Cluster and its hosts are deleted while no manager of Ingot runs: nothing is gone before one
// runs again, and then all is.
func testClusterManagerDown(t *testing.T, e *estate) {
	used := e.used(t)
	e.StopManager()
	// Without the webhooks nothing of Ingot's own kinds can be deleted; the Cluster can.
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: e.cluster.Name}}
	deleting := prune(e.Client, metav1.DeletePropagationForeground, cluster)
	for range 10 {
		if left, _ := deleting(t.Context()); left == "" {
			t.Fatal("the Cluster is gone while no manager released its servers")
		}
		for _, name := range used {
			if !e.World.Server(name).Powered() {
				t.Fatalf("server %s is off while no manager runs", name)
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	e.StartManager(t)
	e.Await(t, "the Cluster to be gone", deleting)
	e.Await(t, "hosts given back", e.Free(e.servers()...))
	e.clean(t)
	var app []client.Object
	for _, name := range e.servers() {
		app = append(app, e.HostObjects(name)...)
	}
	e.Await(t, "the hosts to be gone", prune(e.Client, metav1.DeletePropagationForeground, app...))
}
