// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipmi simulates IPMI v2.0 BMCs. BMC is go-ipmi's simulator in front of a Machine of
// lab/bmc, with configurable faults. Sim is a process of OpenIPMI's ipmi_sim, and Pyghmi a
// process of pyghmi's server. Both are independent of the library that the driver uses.
//
// The package never imports Ingot's own bmc packages. All BMCs listen on 127.0.0.1, unless BMC
// is given a socket.
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
