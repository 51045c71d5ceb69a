// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vendorbmc is the lab's BMCs that speak neither Redfish nor IPMI: a
// webhook that obeys signed notifications (StartWebhook), Intel's Active Management
// Technology over WS-Management with Digest authentication (StartAMT), and a board of
// ASRock Rack with the HTTP API of its web interface (StartASRockRack). Each stands before one machine.Machine, over TLS, with the faults of package
// fault.
//
// It must not know who calls it: it never imports the module's own bmc package, nor
// the library that this is a test of.
//
//	ca, err := endpoint.NewAuthority()
//	s, err := vendorbmc.StartAMT(vendorbmc.Config{
//		Authority: ca, Machine: &machine.Bench{}, Username: "admin", Password: "secret",
//	})
//	defer s.Close()
//	host.spec.bmc.address = "vendor+intelamt://" + s.Host()
//	s.SetFaults(fault.Faults{Hang: true})
package vendorbmc
