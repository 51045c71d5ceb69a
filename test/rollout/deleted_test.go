// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/site"
)

// slowPOST lets a server be found before it has booted.
const slowPOST = 8 * time.Second

// A gate holds systems that have booted, before they join a cluster, while it is
// shut. It is open at first.
type gate struct {
	mu   sync.Mutex
	shut bool
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
}

// pass waits until the gate is open; false: the power is gone.
func (g *gate) pass(ctx context.Context) bool {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if !shut {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// hold makes a server of the row in which machines are deleted too early: the gate
// is before its system, and the second has a slow firmware.
func hold(name string, c *server.Config, joins *gate) {
	join := c.System
	c.System = func(ctx context.Context, os server.System) {
		if joins.pass(ctx) {
			join(ctx, os)
		}
	}
	if strings.HasSuffix(name, "-s2") {
		c.POST = slowPOST
	}
}

// deleted: Machine, MachineDeployment and Cluster are deleted while their hosts are
// claimed and not booted, in the middle of an installation, or booted and not joined. All
// come back, wiped.
func deleted(t *testing.T, s *scene) {
	s.register(t, place{1, "a", controlPlane}, place{2, "b", "early"}, place{3, "c", "early"}, place{4, "d", worker}, place{5, "e", controlPlane}, place{6, "f", controlPlane})
	c := s.create(t, site.Cluster{Name: "brief", ControlPlanes: 1})
	s.joins.set(true)
	defer s.joins.set(false)
	s.patch(t, "machinedeployment", c.Name+"-md-0", `{"spec":{"replicas":1}}`)
	s.patch(t, "kubeadmcontrolplane", c.Name+"-control-plane", `{"spec":{"replicas":3}}`)
	image := s.halfAnImage(t)
	s.earlyWorkers(t, c, image)
	s.Await(t, "a host claimed that has not booted", s.Hosts([]string{s.server(2)}, claimed))
	s.Await(t, "a host in the middle of its installation", s.Hosts([]string{s.server(3)}, installing))

	id := s.Host(t, s.server(3)).Spec.Claim
	s.deleteMachine(t, id.MachineRef.Name)
	s.Await(t, "another machine has the host of one that was deleted while it was installed", s.Hosts([]string{s.server(3)}, func(h *infrav1.IngotHost) string {
		if h.Spec.Claim == nil || h.Spec.Claim.InstanceID == id.InstanceID {
			return "it is not claimed anew"
		}
		return installing(h)
	}))
	s.kubectl(t, "delete", "machinedeployment", "early", "--wait=false")
	early := []string{s.server(2), s.server(3)}
	s.Await(t, "hosts of a MachineDeployment given back, wiped", site.All(s.Free(early...), s.Wiped(early...)))

	s.newDeployment(t, c)
	s.Await(t, "one in the middle of its installation, one claimed", site.All(s.Hosts([]string{s.server(3)}, installing), s.Hosts([]string{s.server(2)}, claimed)))
	s.Await(t, "hosts that have booted and not joined", s.booted(2, s.server(1), s.server(5), s.server(6)))
	s.Await(t, "a worker that has booted and not joined", s.booted(1, s.server(4)))
	if nodes := s.Nodes(t, c); len(nodes) != 1 {
		t.Errorf("%d nodes have joined, want one", len(nodes))
	}
	s.end(t, c)
}

// claimed: the host is for a machine, and its server has not spoken yet.
func claimed(h *infrav1.IngotHost) string {
	switch claim, operation := h.Spec.Claim, h.Status.Operation; {
	case claim == nil || claim.State != infrav1.ClaimProvisioning:
		return "it is not claimed for an installation"
	case operation != nil && !operation.LastContactTime.IsZero():
		return "its server has spoken already"
	}
	return ""
}

// installing: the agent has its order, and waits for the image.
func installing(h *infrav1.IngotHost) string {
	claim, operation := h.Spec.Claim, h.Status.Operation
	if claim == nil || claim.State != infrav1.ClaimProvisioning || operation == nil || operation.Kind != infrav1.OrderInstall || operation.LastContactTime.IsZero() {
		return "no agent installs it"
	}
	return ""
}

// booted is missing until as many of the hosts are installed and have reported
// their first boot.
func (s *scene) booted(want int, names ...string) site.Missing {
	return func(ctx context.Context) (string, error) {
		got := 0
		for _, name := range names {
			host := &infrav1.IngotHost{}
			if err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, host); err != nil {
				return "", err
			}
			claim, report := host.Spec.Claim, host.Status.Booted
			if claim != nil && claim.State == infrav1.ClaimProvisioned && report != nil && report.InstanceID == claim.InstanceID {
				got++
			}
		}
		if got != want {
			return fmt.Sprintf("%d of %v have booted, want %d", got, names, want), nil
		}
		return "", nil
	}
}

// halfAnImage is the address and checksum of an image whose server stands still in
// the middle until the test ends.
func (s *scene) halfAnImage(t *testing.T) infrav1.Image {
	t.Helper()
	url, checksum := s.World.Image(t, "v1.36.1")
	response, err := http.Get(url) // a server of this process
	must(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(t, err)
	released := make(chan struct{})
	stuck := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if r.Method == http.MethodHead {
			return
		}
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-released:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(released)
		stuck.Close()
	})
	return infrav1.Image{URL: stuck.URL + "/half.raw.zst", Checksum: checksum}
}

// earlyWorkers makes a second deployment of two workers, on hosts of their own.
func (s *scene) earlyWorkers(t *testing.T, c site.Cluster, image infrav1.Image) {
	t.Helper()
	s.copyTemplate(t, c.Name+"-md-0", "early", func(spec *infrav1.IngotMachineSpec) {
		spec.Image.URL, spec.Image.Checksum = image.URL, image.Checksum
		spec.HostSelector.MatchLabels = map[string]string{roleLabel: "early"}
	})
	s.newDeployment(t, c)
}

// newDeployment copies the MachineDeployment of the cluster.
func (s *scene) newDeployment(t *testing.T, c site.Cluster) {
	t.Helper()
	md := &clusterv1.MachineDeployment{}
	must(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: c.Name + "-md-0"}, md))
	labels := map[string]string{clusterv1.ClusterNameLabel: c.Name, clusterv1.MachineDeploymentNameLabel: "early"}
	copied := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "early"}, Spec: md.Spec}
	copied.Spec.Replicas = ptr.To[int32](2)
	copied.Spec.Selector.MatchLabels, copied.Spec.Template.Labels = labels, labels
	copied.Spec.Template.Spec.InfrastructureRef.Name = "early"
	s.Create(t, copied)
}

// deleteMachine deletes the Machine of an IngotMachine.
func (s *scene) deleteMachine(t *testing.T, name string) {
	t.Helper()
	list := &clusterv1.MachineList{}
	must(t, s.Client.List(t.Context(), list, client.InNamespace(s.Namespace)))
	for i := range list.Items {
		if list.Items[i].Spec.InfrastructureRef.Name == name {
			s.kubectl(t, "delete", "machine", list.Items[i].Name, "--wait=false")
			return
		}
	}
	t.Fatalf("no Machine has the IngotMachine %s", name)
}
