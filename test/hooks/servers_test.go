// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/hooks"
	"github.com/ingot-metal/ingot/test/needs"
	"github.com/ingot-metal/ingot/test/site"
)

// TestOnServers is of simulated servers, Ingot's manager and Cluster API's own controllers,
// which call the extension.
func TestOnServers(t *testing.T) {
	needs.Full(t)
	needs.ClusterAPI(t)
	world := site.NewWorld(t, site.WorldConfig{Racks: 2, ServersPerRack: 4})
	s := site.Start(t, site.Config{World: world, FeatureGates: []string{"RuntimeSDK", "InPlaceUpdates"}, ManagerArgs: []string{"--agent-deadline=2m"}})
	extension := hooks.Extend(t, s.Kubeconfig(), s.Client, nil)
	t.Run("in place", func(t *testing.T) {
		testInPlace(t, s.In(t, "live"), extension, []string{"r1-s1", "r1-s2", "r2-s1", "r2-s2"})
	})
	t.Run("held and built", func(t *testing.T) {
		testHeldAndBuilt(t, s.In(t, "classy"), extension, []string{"r1-s3", "r2-s3", "r1-s4"})
	})
}

// testHeldAndBuilt: a Cluster of the class ingot-runtime is held for want of two hosts, and
// nothing is made for it. Once they are registered it is let go and built, by the image of
// the catalogue, and its promise ends with its last claim. Its deletion is held while it is
// retained, and then gives all hosts back.
func testHeldAndBuilt(t *testing.T, s *site.Site, extension *hooks.Extension, servers []string) {
	url, checksum := s.World.Image(t, site.DefaultKubernetes)
	s.Create(t, &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "debian-" + site.DefaultKubernetes}, Spec: infrav1.IngotImageSpec{
		KubernetesVersion: site.DefaultKubernetes, Architecture: "amd64", OS: "debian-12", URL: url, Checksum: checksum,
	}})
	s.Register(t, servers[0])
	s.Await(t, "a free host", s.Free(servers[0]))
	c := s.CreateCluster(t, site.Cluster{
		Name: "classy", Flavor: "clusterclass-runtime", ControlPlanes: 1, Workers: 2, Variables: map[string]string{"INGOT_KUBE_VIP_ENABLED": "false"},
	})
	key := client.ObjectKey{Namespace: c.Namespace, Name: c.Name}
	s.Await(t, "the hold", func(ctx context.Context) (string, error) {
		cluster := &clusterv1.Cluster{}
		if err := s.Client.Get(ctx, key, cluster); err != nil {
			return "", err
		}
		if message := conditions.GetMessage(cluster, clusterv1.ClusterTopologyReconciledCondition); !strings.Contains(message, "2 hosts are missing: ") {
			return "TopologyReconciled says " + message, nil
		}
		return "", nil
	})
	if made := s.Kubectl(t, "get", "--namespace="+s.Namespace, "ingotclusters,ingotmachines,machines", "--output=name"); made != "" {
		t.Errorf("made for a Cluster that is held: %s", made)
	}
	s.Register(t, servers[1:]...)
	s.Await(t, "the cluster", s.Running(c))
	s.Await(t, "the promise's end", func(ctx context.Context) (string, error) {
		if err := s.Client.Get(ctx, key, &infrav1.IngotReservation{}); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		return "the reservation is there", nil
	})
	retained(t, s, c, extension)
	s.Await(t, "hosts given back, wiped", site.All(s.Free(servers...), s.Wiped(servers...)))
}

// retained deletes a cluster that is to be retained: it is held, and all of it runs on, until
// the annotation goes.
func retained(t *testing.T, s *site.Site, c site.Cluster, extension *hooks.Extension) {
	t.Helper()
	s.Kubectl(t, "annotate", "--namespace="+s.Namespace, "cluster", c.Name, infrav1.RetainAnnotation+"=")
	s.Kubectl(t, "delete", "--namespace="+s.Namespace, "cluster", c.Name, "--wait=false")
	s.Await(t, "the hold of the deletion", func(context.Context) (string, error) {
		calls := extension.Calls()
		for _, call := range calls {
			if strings.Contains(call.Path, "beforeclusterdelete") && strings.Contains(string(call.Answer), infrav1.RetainAnnotation) {
				return "", nil
			}
		}
		return fmt.Sprintf("none of %d calls was held for it", len(calls)), nil
	})
	s.Await(t, "the cluster, still", s.Running(c))
	s.Kubectl(t, "annotate", "--namespace="+s.Namespace, "cluster", c.Name, infrav1.RetainAnnotation+"-")
	s.Await(t, "the cluster's end", s.Gone(c))
}
