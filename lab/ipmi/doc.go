// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipmi is the lab's IPMI v2.0 BMCs: BMC, which is go-ipmi's simulator in
// front of a Machine of lab/bmc, with faults as knobs; and Sim, which is
// OpenIPMI's ipmi_sim as a process, the proof that does not come from the
// library that the driver is built on.
//
// It must not know who calls it: it never imports the module's own bmc packages.
// Both listen on 127.0.0.1, unless BMC is given a socket.
//
//	b, err := ipmi.Start(ipmi.Config{
//		Machine:  server,
//		Username: "admin", Password: "secret",
//		System:   bmc.System{UUID: id, Serial: "S1"},
//	})
//	defer b.Close()
//	host.spec.bmc.address = b.Address() // ipmi://127.0.0.1:port
//	b.SetFaults(ipmi.Faults{Silent: true})
package ipmi
