// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/test/site"
)

// extensionNamespace is where clusterctl puts the runtime extension.
const extensionNamespace = "ingot-runtime-system"

// runtimeExtension is the release's second provider, by clusterctl: its replicas come up
// with a certificate of cert-manager's, Cluster API discovers their hooks over TLS by the
// authority that it was given, and asks them: a Cluster of more servers than there are is
// held, and nothing is made for it. Then it goes, as the book says, so that the move after
// it finds the same providers on both sides.
func runtimeExtension(t *testing.T, s *stage) {
	s.site.Clusterctl(t, variables(s.site), "init", "--runtime-extension=ingot:"+s.versions.next, "--wait-providers")
	if err := s.node.AwaitPods(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready := s.site.Kubectl(t, "--namespace="+extensionNamespace, "get", "deployment", "ingot-runtime-extension", "--output=jsonpath={.status.readyReplicas}")
	if ready != "2" {
		t.Errorf("%s replicas are ready, want 2", ready)
	}
	s.site.Kubectl(t, "wait", "extensionconfig/ingot", "extensionconfig/ingot-in-place", "--for=condition=Discovered", "--timeout=3m")
	for name, hook := range map[string]string{"ingot": "BeforeClusterCreate", "ingot-in-place": "UpdateMachine"} {
		found := s.site.Kubectl(t, "get", "extensionconfig", name, "--output=jsonpath={.spec.clientConfig.caBundle} {.status.handlers[*].requestHook.hook}")
		if bundle, hooks, _ := strings.Cut(found, " "); bundle == "" || !strings.Contains(hooks, hook) {
			t.Errorf("ExtensionConfig %s: authority %q, hooks %s", name, bundle, hooks)
		}
	}
	s.watch.lap("clusterctl init --runtime-extension, both ExtensionConfigs discovered")
	held(t, s)
	s.site.Kubectl(t, "delete", "extensionconfigs", "ingot", "ingot-in-place")
	s.site.Clusterctl(t, nil, "delete", "--runtime-extension=ingot", "--include-namespace")
	if left := s.site.Kubectl(t, "get", "extensionconfigs", "--output=name"); left != "" {
		t.Errorf("left of the runtime extension: %s", left)
	}
}

// held asks for more workers than there are servers.
func held(t *testing.T, s *stage) {
	t.Helper()
	c := s.site.CreateCluster(t, site.Cluster{
		Name: "greedy", Flavor: "clusterclass", ControlPlanes: 1, Workers: 50, Variables: map[string]string{"INGOT_KUBE_VIP_ENABLED": "false"},
	})
	want := fmt.Sprintf("%d hosts are missing: ", c.ControlPlanes+c.Workers-len(s.world.Servers()))
	s.site.Await(t, "the hold", func(ctx context.Context) (string, error) {
		out, err := s.site.Plane.Kubectl(ctx, "get", "cluster", c.Name, `--output=jsonpath={.status.conditions[?(@.type=="TopologyReconciled")].message}`)
		if err != nil || strings.Contains(string(out), want) {
			return "", err
		}
		return fmt.Sprintf("TopologyReconciled says %q, want %q", out, want), nil
	})
	if made := s.site.Kubectl(t, "get", "ingotclusters,ingotmachines,ingotreservations", "--output=name"); made != "" {
		t.Errorf("made for a Cluster that is held: %s", made)
	}
	s.site.Kubectl(t, "delete", "cluster", c.Name, "--wait=false")
	s.site.Await(t, "the cluster's end", s.site.Gone(c))
}
