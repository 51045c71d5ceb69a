// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vendorbmc emulates BMCs that speak neither Redfish nor IPMI: a webhook for signed
// notifications (StartWebhook), Intel AMT over WS-Management with Digest authentication (StartAMT),
// and an ASRock Rack board with the HTTP API of its web interface (StartASRockRack). Each has one
// machine.Machine, TLS, and the faults of package fault.
//
// It must import neither the module's own bmc package nor bmclib, which it tests.
//
//	ca, err := endpoint.NewAuthority()
//	s, err := vendorbmc.StartAMT(vendorbmc.Config{
//		Authority: ca, Machine: &machine.Bench{}, Username: "admin", Password: "secret",
//	})
//	defer s.Close()
//	host.spec.bmc.address = "vendor+intelamt://" + s.Host()
//	s.SetFaults(fault.Faults{Hang: true})
package vendorbmc
