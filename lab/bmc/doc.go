// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmc is the lab's emulated management controller: a Redfish service
// (DMTF DSP0266) over TLS in front of one Machine, with the faults of real ones
// as knobs, and a log of every write, by which tests count what was done to a
// server.
//
// It must not know who calls it: it never imports the module's own bmc package,
// so that client and emulator cannot share a mistake. Nor does it know what a
// Machine is made of: a simulated server, a QEMU process, or nothing at all.
//
// One BMC is one listener and nothing else while nobody calls, so that one
// process can hold thousands; they share one certificate of an Authority.
//
//	ca, err := bmc.NewAuthority()
//	b, err := bmc.Start(bmc.Config{
//		Authority: ca,
//		Machine:   server,
//		Username:  "admin", Password: "secret",
//		System:    bmc.System{UUID: id, Serial: "S1", MACs: []string{"52:54:00:00:00:01"}},
//	})
//	defer b.Close()
//	host.spec.bmc.address = b.Address() // redfish://127.0.0.1:port; trust ca.PEM()
//	b.SetFaults(bmc.Faults{Status: 503})
//	for _, w := range b.Writes() { … }
package bmc
