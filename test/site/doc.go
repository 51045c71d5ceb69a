// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package site is a data center with management clusters, for tests of Ingot as
// what it is: a provider of Cluster API. All is real but the servers: etcd and API
// server, Cluster API's managers with their webhooks, clusterctl with a repository
// of Ingot's release from this source tree, Ingot's manager as a process under its
// shipped role, emulated BMCs, real packets, the agent's own code. The servers are
// simulated, and what they are installed with brings up workload clusters in
// memory (lab/workload), so that KubeadmControlPlanes, Nodes and health checks are
// real to Cluster API. There is no kubelet: Deployments are scaled to zero and
// their managers run as processes.
//
// A World is the hardware: racks of servers, their network, their images, the
// workload clusters that run on them. A Site is a management cluster with Ingot.
// Several Sites may share a World, for what moves between them. Everything ends
// with the test. The package decides nothing of what Ingot does.
//
// Waits take a Missing: a function that says what is still missing; that is what
// the test fails with.
//
//	world := site.NewWorld(t, site.WorldConfig{Racks: 3, ServersPerRack: 2}) // servers r1-s1 … r3-s2
//	s := site.Start(t, site.Config{World: world})
//	s.Register(t, world.Servers()...)
//	s.Await(t, "free hosts", s.Free(world.Servers()...))
//	history := s.Record(t, &infrav1.IngotHostList{}, &clusterv1.MachineList{})
//	c := s.CreateCluster(t, site.Cluster{Name: "c1", ControlPlanes: 3, Workers: 2}) // clusterctl generate cluster | kubectl apply
//	s.Await(t, "machines", s.Running(c))
//	s.Kubectl(t, "delete", "cluster", "c1")
//	s.Await(t, "hosts given back", s.Free(world.Servers()...))
//	_ = world.Counts()                                // what BMCs and disks were asked to do
//	_ = s.Changes(t, management.Username, time.Time{}) // what Ingot wrote, by the audit log
//
// Attach makes a site of a management cluster that runs elsewhere, for example with
// pods (lab/node).
//
// A second site for a move: site.Start(t, site.Config{World: world, Name: "b"}),
// and then s.Clusterctl(t, nil, "move", "--to-kubeconfig="+b.Kubeconfig()).
package site
