// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmc is the lab's emulated management controller: a Redfish service (DMTF DSP0266, with the
// schemas of DSP2046) over TLS in front of one Machine. It has the faults of real BMCs as options and
// a log of every write, which tests use to count what was done to a server.
//
// It must not import the module's own bmc package, so that client and emulator cannot share a
// mistake. It does not know whether a Machine is a simulated server, a QEMU process or nothing.
//
// A bare BMC has power, boot override, interfaces and sessions. A Personality makes it the BMC of a
// vendor, with names, paths, services and quirks. Each service has its own package:
//
//	session   sessions, Basic authentication, accounts
//	settings  Bios, attribute registries, Secure Boot, Dell's configuration jobs
//	update    firmware inventory, SimpleUpdate, multipart push
//	task      tasks, their monitors, job queues
//	media     virtual media
//	hardware  processors, memory, drives, fans, supplies, sensors
//	journal   the system event log
//	events    subscriptions, pushes, server-sent events
//	machine   the server behind the BMC
//	fault     wrong, late and missing answers
//	endpoint  listener and certificate
//	web       the web interface of Supermicro boards
//
// New settings and firmware take effect at the machine's next boot: before each request, the BMC
// checks how often the machine has booted. Tasks have steps instead of durations: each read of a task
// or of the firmware inventory is a step.
//
// An idle BMC is one listener, one goroutine and about 20 KiB, so one process can run 5,000. They
// share the certificate of an Authority.
//
//	ca, err := bmc.NewAuthority()
//	p, _ := personality.Named("dell-idrac10")
//	b, err := bmc.Start(bmc.Config{
//		Authority: ca,
//		Machine:   server,
//		Username:  "admin", Password: "secret",
//		System:      bmc.System{UUID: id, Serial: "S1", MACs: []string{"52:54:00:00:00:01"}},
//		Personality: p,
//	})
//	defer b.Close()
//	host.spec.bmc.address = b.Address() // redfish://127.0.0.1:port; trust ca.PEM()
//	b.SetFaults(bmc.Faults{Every: 5, Status: 503}, bmc.Faults{Latency: time.Second})
//	b.Reboot(30 * time.Second)
//	for _, w := range b.Writes() { … }
package bmc
