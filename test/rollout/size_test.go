// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/site"
)

// surge: one spare host, in a rack that has no control plane, lets a machine be
// made before another is deleted. Then the control plane grows into a host that
// comes late, and shrinks. A rack of workers alone is never its own.
func surge(t *testing.T, s *scene) {
	s.register(t, place{1, "a", controlPlane}, place{2, "b", controlPlane}, place{3, "c", controlPlane}, place{4, "d", controlPlane}, place{6, "w", worker})
	offered := s.offers(t)
	c := s.create(t, site.Cluster{Name: "spare", ControlPlanes: 3, Workers: 1})
	s.patch(t, "kubeadmcontrolplane", c.Name+"-control-plane", `{"spec":{"rollout":{"strategy":{"rollingUpdate":{"maxSurge":1}}}}}`)
	controlPlanes, _ := s.machines(t, c)
	s.rotateControlPlane(t, c, "2", c.Kubernetes, cleaned)
	s.Await(t, "control plane rotated with a spare host", s.replaced(c, controlPlanes))
	if racks := s.byRack(t, c); len(racks) != 3 {
		t.Errorf("control planes by rack: %v, want no two in one", racks)
	}

	s.kubectl(t, "scale", "kubeadmcontrolplane", c.Name+"-control-plane", "--replicas=5")
	s.Await(t, "four of five", func(ctx context.Context) (string, error) {
		list, _, err := s.Machines(ctx, c)
		running := 0
		for _, m := range list {
			if m.Status.Phase == string(clusterv1.MachinePhaseRunning) {
				running++
			}
		}
		if len(list) != 5 || running != 4 {
			return fmt.Sprintf("%d machines, of which %d run", len(list), running), err
		}
		return "", err
	})
	s.add(t, place{5, "d", controlPlane})
	c.ControlPlanes = 5
	s.Await(t, "five control planes", s.Running(c))
	s.kubectl(t, "scale", "kubeadmcontrolplane", c.Name+"-control-plane", "--replicas=3")
	c.ControlPlanes = 3
	s.Await(t, "three control planes", s.Running(c))
	t.Logf("control planes by rack: %v", s.byRack(t, c))
	s.end(t, c)
	if slices.Contains(offered(t), "w") {
		t.Error("a rack of workers was offered to the control plane")
	}
}

// mistaken: a template that no host meets costs a control plane without a spare host
// one machine, and no more; so does asking for more machines than there are hosts.
// KubeadmControlPlane changes nothing while a machine has no Node, and takes away the
// oldest: so a person mends what is asked for, and deletes the Machine that waits.
func mistaken(t *testing.T, s *scene) {
	s.register(t, place{1, "a", controlPlane}, place{2, "b", controlPlane}, place{3, "c", controlPlane})
	c := s.create(t, site.Cluster{Name: "hopeful", ControlPlanes: 3})
	controlPlanes, _ := s.machines(t, c)
	s.rotateControlPlane(t, c, "wrong", c.Kubernetes, func(spec *infrav1.IngotMachineSpec) {
		spec.HostSelector.Minimum = &infrav1.HardwareMinimum{Memory: new(resource.MustParse("1024Gi"))}
	})
	if told := s.awaitWaiter(t, c); !strings.Contains(told, "1024 GiB memory") {
		t.Errorf("a machine that asks for too much is told %q", told)
	}
	s.rotateControlPlane(t, c, "2", c.Kubernetes, cleaned)
	s.deleteWaiting(t, c)
	s.Await(t, "control plane rotated by the mended template", s.replaced(c, controlPlanes))
	s.spread(t, c, oneEach)

	name := c.Name + "-control-plane"
	s.kubectl(t, "scale", "kubeadmcontrolplane", name, "--replicas=5")
	s.awaitWaiter(t, c)
	s.kubectl(t, "scale", "kubeadmcontrolplane", name, "--replicas=3")
	s.deleteWaiting(t, c)
	s.Await(t, "three control planes again", s.Running(c))
	s.spread(t, c, oneEach)
	s.end(t, c)
}

// deleteWaiting deletes the control plane Machines that have no host.
func (s *scene) deleteWaiting(t *testing.T, c site.Cluster) {
	t.Helper()
	controlPlanes, _ := s.machines(t, c)
	for _, m := range controlPlanes {
		if s.hostOf(t, m) == nil {
			s.kubectl(t, "delete", "machine", m.Name, "--wait=false")
		}
	}
}
