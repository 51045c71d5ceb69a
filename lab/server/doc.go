// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server is the lab's simulated server: a machine without a processor.
// It is switched by an emulated BMC (lab/bmc), boots as firmware does, over real
// DHCP, TFTP and HTTP packets, runs the agent's own code on files as disks, and
// then acts as the installed system would, or as the live system that the agent starts
// and that installs itself. Power cut stops all of it at once and
// leaves the disk files as they are.
//
// It shares no code with the boot server or the manager that it talks to, only
// the wire types of agentapi. What it simulates is only what tests need: it runs
// no kernel, no shell and no cloud-init; the variables at the top of vendor-data
// are what it understands of a script, and of a network configuration the addresses
// of the one interface that it has. What the user data makes of the installed
// system is somebody else's (Config.System; lab/workload for Kubernetes).
//
// What was done to its disks is counted by the disks themselves (Disk.Log), not
// by anybody's word.
//
//	nic, err := network.NewStack(sw, network.StackConfig{Name: "s1", MAC: mac})
//	s, err := server.New(server.Config{
//		Name: "s1", NIC: nic, UUID: id, Serial: "S1",
//		Disks: []server.DiskConfig{{Path: dir + "/s1.raw", Serial: "D1", SizeBytes: 64 << 20}},
//	})
//	defer s.Close()
//	b, err := bmc.Start(bmc.Config{Authority: ca, Machine: s, …})
package server
