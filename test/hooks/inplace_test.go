// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/hooks"
	"github.com/ingot-metal/ingot/test/site"
)

// testInPlace: machines of a KubeadmControlPlane and of a MachineDeployment are given
// templates that differ in what can change live. Cluster API's own controllers ask, change
// the machines that there are, and wait until it is in force: none is replaced, no server
// is switched, no disk written, and no Node goes.
//
// By the template neither rolls out with a surge: with one, Cluster API makes a machine anew
// first, whatever the hooks say (decision 0053).
func testInPlace(t *testing.T, s *site.Site, extension *hooks.Extension, servers []string) {
	s.Kubectl(t, "label", "namespace", s.Namespace, hooks.InPlaceLabel+"=on")
	s.Register(t, servers...)
	s.Await(t, "free hosts", s.Free(servers...))
	c := s.CreateCluster(t, site.Cluster{Name: "live", ControlPlanes: 3, Workers: 1, Variables: map[string]string{"INGOT_KUBE_VIP_ENABLED": "false"}})
	s.Await(t, "a cluster of three and one", s.Running(c))
	l := &live{Site: s, cluster: c, servers: servers, extension: extension}
	before := l.state(t)

	full := func(spec *infrav1.IngotMachineSpec) { spec.Cleaning = infrav1.CleaningFull }
	l.rotate(t, "control-plane", full)
	l.patch(t, "kubeadmcontrolplane", c.Name+"-control-plane", `{"spec":{"machineTemplate":{"spec":{"infrastructureRef":{"name":%q}}}}}`, c.Name+"-control-plane-2")
	s.Await(t, "control planes changed live", l.changed("kubeadmcontrolplane", c.Name+"-control-plane", 3))

	// The label comes to the server first, and then to those that ask for it.
	_, workers, err := s.Machines(t.Context(), c)
	must(t, err)
	s.Kubectl(t, "label", "--namespace="+s.Namespace, "ingothost", l.hostOf(t, workers[0].Spec.InfrastructureRef.Name), "tier=workers")
	l.rotate(t, "md-0", func(spec *infrav1.IngotMachineSpec) {
		full(spec)
		if spec.HostSelector == nil {
			spec.HostSelector = &infrav1.HostSelector{}
		}
		spec.HostSelector.MatchLabels = map[string]string{"tier": "workers"}
	})
	l.patch(t, "machinedeployment", c.Name+"-md-0", `{"spec":{"template":{"spec":{"infrastructureRef":{"name":%q}}}}}`, c.Name+"-md-0-2")
	s.Await(t, "workers changed live", l.changed("machinedeployment", c.Name+"-md-0", 1))

	if diff := cmp.Diff(before, l.state(t)); diff != "" {
		t.Errorf("more than the machines' specs changed (-before +after):\n%s", diff)
	}
	l.asked(t)
}

// live is a cluster whose machines are changed.
type live struct {
	*site.Site
	cluster   site.Cluster
	servers   []string
	extension *hooks.Extension
}

func (l *live) patch(t *testing.T, kind, name, format string, args ...any) {
	t.Helper()
	l.Kubectl(t, "patch", kind, name, "--namespace="+l.Namespace, "--type=merge", "--patch="+fmt.Sprintf(format, args...))
}

// rotate makes a copy of a template of the cluster's, since templates are immutable.
func (l *live) rotate(t *testing.T, part string, edit func(*infrav1.IngotMachineSpec)) {
	t.Helper()
	was := &infrav1.IngotMachineTemplate{}
	must(t, l.Client.Get(t.Context(), client.ObjectKey{Namespace: l.Namespace, Name: l.cluster.Name + "-" + part}, was))
	is := &infrav1.IngotMachineTemplate{Spec: *was.Spec.DeepCopy()}
	is.Namespace, is.Name, is.Labels = was.Namespace, was.Name+"-2", was.Labels
	edit(&is.Spec.Template.Spec)
	must(t, l.Client.Create(t.Context(), is))
}

// unchanged is what a change on running servers leaves as it is, by name.
type unchanged struct {
	Machines map[string]string            // UIDs
	Claims   map[string]infrav1.HostClaim // but for the cleaning
	Servers  map[string][2]int64          // writes to the BMC, bytes to the disk
	Nodes    map[string]string            // UIDs and boots
}

func (l *live) state(t *testing.T) unchanged {
	t.Helper()
	out := unchanged{Machines: map[string]string{}, Claims: map[string]infrav1.HostClaim{}, Servers: map[string][2]int64{}, Nodes: map[string]string{}}
	for _, list := range []client.ObjectList{&clusterv1.MachineList{}, &infrav1.IngotMachineList{}} {
		must(t, l.Client.List(t.Context(), list, client.InNamespace(l.Namespace)))
		switch list := list.(type) {
		case *clusterv1.MachineList:
			for _, m := range list.Items {
				out.Machines["Machine "+m.Name] = string(m.UID)
			}
		case *infrav1.IngotMachineList:
			for _, m := range list.Items {
				out.Machines["IngotMachine "+m.Name] = string(m.UID) + " " + m.Spec.ProviderID
			}
		}
	}
	counts := l.World.Counts()
	for _, name := range l.servers {
		claim := l.Host(t, name).Spec.Claim.DeepCopy()
		claim.Cleaning = ""
		out.Claims[name] = *claim
		out.Servers[name] = [2]int64{int64(counts[name].Writes), counts[name].DiskBytes}
	}
	for _, node := range l.Nodes(t, l.cluster) {
		out.Nodes[node.Name] = string(node.UID) + " " + node.Status.NodeInfo.BootID
	}
	return out
}

// changed says what is missing until all machines of an owner are as it wants them: it
// counts them as up to date, none is being updated any more, and the claim of each has the
// new cleaning.
func (l *live) changed(kind, name string, machines int) site.Missing {
	return func(ctx context.Context) (string, error) {
		out, err := l.Plane.Kubectl(ctx, "get", kind, name, "--namespace="+l.Namespace, "--output=jsonpath={.status.upToDateReplicas} {.status.readyReplicas} {.status.replicas}")
		if err != nil {
			return "", err
		}
		if want := fmt.Sprintf("%d %d %d", machines, machines, machines); string(out) != want {
			return fmt.Sprintf("up to date, ready and there are %s, want %s", out, want), nil
		}
		list := &clusterv1.MachineList{}
		if err := l.Client.List(ctx, list, client.InNamespace(l.Namespace)); err != nil {
			return "", err
		}
		for _, m := range list.Items {
			_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
			if controlPlane != (kind == "kubeadmcontrolplane") {
				continue
			}
			if _, updating := m.Annotations[clusterv1.UpdateInProgressAnnotation]; updating {
				return m.Name + " is being updated", nil
			}
			if lack, err := l.inForce(ctx, m.Spec.InfrastructureRef.Name); lack != "" || err != nil {
				return lack, err
			}
		}
		return "", nil
	}
}

func (l *live) inForce(ctx context.Context, name string) (string, error) {
	machine, host := &infrav1.IngotMachine{}, &infrav1.IngotHost{}
	if err := l.Client.Get(ctx, client.ObjectKey{Namespace: l.Namespace, Name: name}, machine); err != nil {
		return "", err
	}
	id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
	if err != nil {
		return "", err
	}
	if err := l.Client.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Host}, host); err != nil {
		return "", err
	}
	if machine.Spec.Cleaning != infrav1.CleaningFull || host.Spec.Claim == nil || host.Spec.Claim.Cleaning != infrav1.CleaningFull {
		return fmt.Sprintf("%s has cleaning %q, its host's claim %+v", name, machine.Spec.Cleaning, host.Spec.Claim), nil
	}
	return "", nil
}

func (l *live) hostOf(t *testing.T, machine string) string {
	t.Helper()
	m := &infrav1.IngotMachine{}
	must(t, l.Client.Get(t.Context(), client.ObjectKey{Namespace: l.Namespace, Name: machine}, m))
	id, err := infrav1.ParseProviderID(m.Spec.ProviderID)
	must(t, err)
	return id.Host
}

// asked: it was Cluster API that asked, by all three hooks.
func (l *live) asked(t *testing.T) {
	t.Helper()
	seen := map[string]int{}
	for _, call := range l.extension.Calls() {
		path := strings.Split(strings.Trim(call.Path, "/"), "/")
		if path[0] == "in-place" {
			seen[path[3]]++
		}
	}
	if seen["canupdatemachine"] < 3 || seen["canupdatemachineset"] < 1 || seen["updatemachine"] < 4 {
		t.Errorf("hooks called: %v", seen)
	}
}
