// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server simulates a server without a processor. An emulated BMC (lab/bmc) controls its
// power. It boots like firmware with real DHCP, TFTP and HTTP packets, and runs the agent's own code
// with files as disks. Then it acts like the installed system, or like a live system that installs
// itself. A power cut stops everything at once and leaves the disk files unchanged.
//
// It shares only the wire types of agentapi with the boot server and the manager. It simulates
// only what tests need: no kernel, no shell and no cloud-init. Of vendor-data it reads the
// variables at the top of the script, and of a network configuration the addresses of its one
// interface. Config.System simulates what the user data installs (lab/workload for Kubernetes).
//
// The disks themselves count the changes (Disk.Log).
//
//	nic, err := network.NewStack(sw, network.StackConfig{Name: "s1", MAC: mac})
//	s, err := server.New(server.Config{
//		Name: "s1", NIC: nic, UUID: id, Serial: "S1",
//		Disks: []server.DiskConfig{{Path: dir + "/s1.raw", Serial: "D1", SizeBytes: 64 << 20}},
//	})
//	defer s.Close()
//	b, err := bmc.Start(bmc.Config{Authority: ca, Machine: s, …})
package server
