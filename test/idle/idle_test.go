// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	addonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"

	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/test/needs"
	"github.com/ingot-metal/ingot/test/site"
)

const (
	// duration of the rest.
	duration = 10 * time.Minute
	// settled is how long Ingot has written nothing before the clusters count as at
	// rest: longer than its longest wait here, the power poll.
	settled = 70 * time.Second
	// classy is the namespace of the cluster of a ClusterClass.
	classy = "classy"
)

// A yard is a site with 50 hosts and two clusters that run.
type yard struct {
	*site.Site
	// plain is made by the template for existing endpoints, class by a topology.
	plain, class site.Cluster
}

// TestAtRest lets 50 hosts and two clusters rest, and then removes owner references
// and finalizers.
func TestAtRest(t *testing.T) {
	needs.Full(t)
	needs.ClusterAPI(t)
	y := newYard(t)
	y.Await(t, "silence", y.Silent(settled))

	m := startMeter(requests(y.World))
	var quiet window
	before := y.World.Counts()
	objects := y.objects(t)
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.Describe("a cluster at rest", func() {
		ginkgo.It("changes no object", func(ctx context.Context) {
			quiet.from = time.Now()
			for _, input := range []framework.ValidateResourceVersionStableInput{
				{Namespace: classy, WaitToRemainStable: []any{"1s", "1s"}},
				{Namespace: y.Namespace, WaitToRemainStable: []any{duration, 10 * time.Second}},
			} {
				// One look at all objects takes half a minute on a busy machine.
				input.ClusterProxy, input.WaitToBecomeStable = y.proxy(), []any{5 * time.Minute, time.Second}
				framework.ValidateResourceVersionStable(ctx, input)
			}
			quiet.to = time.Now()
		})
		y.survives(y.plain, false)
		y.survives(y.class, true)
	})
	ginkgo.RunSpecs(t, "rest")
	m.end()
	if quiet.to.IsZero() {
		t.Fatal("there was no silence to measure, see above")
	}

	y.quiet(t, quiet)
	whole := window{quiet.to.Add(-duration), quiet.to}
	t.Log(loadOf(m, y.World.Servers(), whole).report(whole))
	// A window of 1.3 minutes has at most 2 of what comes once a minute.
	l := loadOf(m, y.World.Servers(), quiet)
	if limit := int(quiet.minutes()) + 1; l.most > limit || l.total == 0 {
		t.Errorf("the BMC of %s was asked %d times in %s, want at most %d", l.busiest, l.most, quiet.to.Sub(quiet.from), limit)
	}
	for name, count := range y.World.Counts() {
		if diff := cmp.Diff(before[name], count, cmpopts.IgnoreFields(site.Count{}, "Reads")); diff != "" {
			t.Errorf("%s was touched (-before +after):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff(objects, y.objects(t)); diff != "" {
		t.Errorf("objects were made or lost (-before +after):\n%s", diff)
	}
}

// newYard brings up 50 hosts in five racks, a cluster of five machines among most
// of them, and one of two of a ClusterClass with the others.
func newYard(t *testing.T) *yard {
	t.Helper()
	world := site.NewWorld(t, site.WorldConfig{Racks: 5, ServersPerRack: 10})
	// The lead, polls and agents as shipped; the other waits are the site's.
	args := []string{"--leader-elect", "--power-poll=1m", "--agent-deadline=15m"}
	y := &yard{Site: site.Start(t, site.Config{World: world, Namespace: "plain", ManagerArgs: args})}
	servers := world.Servers()
	const others = 2
	if err := addonsv1.AddToScheme(y.Client.Scheme()); err != nil { // the validators ask for ClusterResourceSets
		t.Fatal(err)
	}
	y.Register(t, servers[others:]...)
	y.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: classy}})
	for _, name := range servers[:others] {
		for _, object := range y.HostObjects(name) {
			object.SetNamespace(classy)
			y.Create(t, object)
		}
	}
	y.Await(t, "free hosts", y.Free(servers[others:]...))
	y.plain = y.CreateCluster(t, site.Cluster{Name: "plain", ControlPlanes: 3, Workers: 2})
	y.class = y.CreateCluster(t, site.Cluster{
		Name: "class", Namespace: classy, Flavor: "clusterclass", ControlPlanes: 1, Workers: 1,
		Variables: map[string]string{"INGOT_KUBE_VIP_ENABLED": "false"},
	})
	y.Await(t, "machines that run", site.All(y.Running(y.plain), y.Running(y.class)))
	return y
}

// quiet: Ingot wrote nothing in the window.
func (y *yard) quiet(t *testing.T, w window) {
	t.Helper()
	writes, leases, err := y.Writes(w.from, w.to)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("audit log of %.1f minutes with %d hosts: %d writes by Ingot, and %d renewals of its leader's lease, which do not count",
		w.minutes(), len(y.World.Servers()), len(writes), leases)
	for _, e := range writes {
		t.Error(site.Text(e))
	}
	if leases == 0 {
		t.Error("the leader did not renew its lease: the audit log has nothing of Ingot")
	}
}

// survives adds the specs that remove what holds a cluster's objects together.
func (y *yard) survives(c site.Cluster, topology bool) {
	for _, what := range []struct {
		name     string
		validate func(context.Context)
	}{
		{"owner references", func(ctx context.Context) {
			framework.ValidateOwnerReferencesResilience(ctx, y.proxy(), c.Namespace, c.Name, moved, ownersOf(topology)...)
		}},
		{"versions in owner references", func(ctx context.Context) {
			framework.ValidateOwnerReferencesOnUpdate(ctx, y.proxy(), c.Namespace, c.Name, moved, ownersOf(topology)...)
		}},
		{"finalizers", func(ctx context.Context) {
			framework.ValidateFinalizersResilience(ctx, y.proxy(), c.Namespace, c.Name, moved, finalizersOf(topology)...)
		}},
	} {
		ginkgo.It("puts back "+what.name+" of "+c.Name, what.validate)
	}
}

// moved leaves out what the provider keeps in its own namespace, which the
// validators look for in the cluster's.
func moved(object unstructured.Unstructured) bool {
	return object.GetNamespace() != management.Namespace
}

// proxy is how the validators reach the management cluster.
func (y *yard) proxy() framework.ClusterProxy {
	return framework.NewClusterProxy("site", y.Kubeconfig(), y.Client.Scheme())
}

// objects are all that clusterctl would move, with their UIDs.
func (y *yard) objects(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, namespace := range []string{y.plain.Namespace, y.class.Namespace} {
		graph, err := clusterctlcluster.GetOwnerGraph(t.Context(), namespace, y.Kubeconfig(), moved)
		if err != nil {
			t.Fatal(err)
		}
		for uid, node := range graph {
			out[fmt.Sprintf("%s %s/%s", node.Object.Kind, node.Object.Namespace, node.Object.Name)] = uid
		}
	}
	return out
}
