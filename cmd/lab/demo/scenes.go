// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

const (
	wantReleased = 1 // machines to release
	namespace    = "default"
)

// register registers the servers with kubectl.
func (s *show) register(ctx context.Context) error {
	path, err := s.hostManifests()
	if err != nil {
		return err
	}
	s.say("kubectl apply -f hosts.yaml   (%d servers in two racks)", len(s.dc.Servers))
	_, err = s.plane.Kubectl(ctx, "apply", "-f", path)
	return err
}

// awaitInspection waits until every host is Available, and compares the inspected hardware with the
// servers.
func (s *show) awaitInspection(ctx context.Context) error {
	err := s.watch(ctx, "Inspecting", func(v view) (bool, error) {
		if len(v.hosts) != len(s.dc.Servers) {
			return false, nil
		}
		for i := range v.hosts {
			if !conditions.IsTrue(&v.hosts[i], infrav1.HostAvailableCondition) {
				return false, quarantined(&v.hosts[i])
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	facts := &infrav1.IngotHardwareList{}
	if err := s.client.List(ctx, facts, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range facts.Items {
		hardware := &facts.Items[i]
		if len(hardware.Spec.Disks) != 1 || len(hardware.Spec.NICs) != 1 || hardware.Spec.MemoryBytes == 0 {
			return fmt.Errorf("inspect host %s: want one disk and one NIC, got %d and %d", hardware.Name, len(hardware.Spec.Disks), len(hardware.Spec.NICs))
		}
	}
	s.say("All %d hosts are inspected and Available", len(facts.Items))
	return nil
}

// quarantined returns an error for a quarantined host, which ends the wait.
func quarantined(host *infrav1.IngotHost) error {
	if host.Status.Phase != infrav1.PhaseQuarantined {
		return nil
	}
	return fmt.Errorf("host %s is quarantined: %s", host.Name, conditions.GetMessage(host, infrav1.ReadyCondition))
}

func (s *show) createCluster(ctx context.Context) error {
	path, err := s.clusterManifests()
	if err != nil {
		return err
	}
	s.say("kubectl apply -f cluster.yaml   (Cluster and MachineDeployment of %d)", s.Machines)
	_, err = s.plane.Kubectl(ctx, "apply", "-f", path)
	return err
}

// awaitMachines waits until all systems have booted and reported.
func (s *show) awaitMachines(ctx context.Context) error {
	err := s.watch(ctx, "Provisioning", func(v view) (bool, error) {
		booted := 0
		for i := range v.machines {
			if conditions.IsTrue(&v.machines[i], infrav1.MachineBootedCondition) {
				booted++
			}
		}
		for i := range v.hosts {
			if err := quarantined(&v.hosts[i]); err != nil {
				return false, err
			}
		}
		return booted == s.Machines, nil
	})
	if err != nil {
		return err
	}
	s.say("All %d systems have booted from their disks and reported", s.Machines)
	return nil
}

// scaleDown removes one machine, and records the hosts in use.
func (s *show) scaleDown(ctx context.Context) error {
	count, err := s.countProvisioned(ctx)
	if err != nil {
		return err
	}
	s.result.provisioned = count
	s.say("kubectl scale machinedeployment demo-workers --replicas=%d", s.Machines-wantReleased)
	md := &clusterv1.MachineDeployment{}
	if err := s.client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo-workers"}, md); err != nil {
		return err
	}
	base := md.DeepCopy()
	md.Spec.Replicas = ptr.To(int32(s.Machines - wantReleased))
	return s.client.Patch(ctx, md, client.MergeFrom(base))
}

// awaitRelease waits until the host of the deleted machine is Available again.
func (s *show) awaitRelease(ctx context.Context) error {
	return s.watch(ctx, "Releasing and wiping", func(v view) (bool, error) {
		free := 0
		for i := range v.hosts {
			if err := quarantined(&v.hosts[i]); err != nil {
				return false, err
			}
			if v.hosts[i].Spec.Claim == nil && conditions.IsTrue(&v.hosts[i], infrav1.HostAvailableCondition) {
				free++
			}
		}
		return len(v.machines) == s.Machines-wantReleased && free == len(v.hosts)-len(v.machines), nil
	})
}

// view contains the objects shown in the table.
type view struct {
	hosts    []infrav1.IngotHost
	machines []infrav1.IngotMachine
}

func (s *show) list(ctx context.Context) (view, error) {
	hosts, machines := &infrav1.IngotHostList{}, &infrav1.IngotMachineList{}
	err := errors.Join(
		s.client.List(ctx, hosts, client.InNamespace(namespace)),
		s.client.List(ctx, machines, client.InNamespace(namespace)))
	return view{hosts: hosts.Items, machines: machines.Items}, err
}

// watchInterval is the interval at which the table is drawn.
const watchInterval = time.Second

// watch draws the table until done returns true, a process ends or the context ends.
func (s *show) watch(ctx context.Context, title string, done func(view) (bool, error)) error {
	table := &table{out: s.Out, live: isTerminal(s.Out), title: title, started: s.started}
	defer table.finish()
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		v, err := s.list(ctx)
		if err == nil {
			table.draw(rowsOf(v))
			if err := s.killManager(ctx, v); err != nil {
				return err
			}
			ok, err := done(v)
			if ok || err != nil {
				return err
			}
		} else if ctx.Err() == nil && s.manager.Err() == nil && s.plane.Err() == nil {
			return fmt.Errorf("list the hosts and machines: %w", err)
		}
		if err := errors.Join(s.manager.Err(), s.plane.Err()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", title, ctx.Err())
		case <-tick.C:
		}
	}
}

func (s *show) events(ctx context.Context) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	err := s.client.List(ctx, list, client.InNamespace(namespace))
	return list.Items, err
}
