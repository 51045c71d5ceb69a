// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmc is the lab's emulated management controller: a Redfish service
// (DMTF DSP0266, with the schemas of DSP2046) over TLS in front of one Machine,
// with the faults of real ones as knobs, and a log of every write, by which tests
// count what was done to a server.
//
// It must not know who calls it: it never imports the module's own bmc package,
// so that client and emulator cannot share a mistake. Nor does it know what a
// Machine is made of: a simulated server, a QEMU process, or nothing at all.
//
// A bare BMC has power, boot override, interfaces and sessions. With a Personality
// it is one maker's: names, paths, services and quirks come from package
// personality, and each service has a package of its own:
//
//	session   sessions, Basic authentication, accounts
//	settings  Bios, attribute registries, Secure Boot, Dell's configuration jobs
//	update    firmware inventory, SimpleUpdate, multipart push
//	task      tasks, their monitors, job queues
//	media     virtual media
//	hardware  processors, memory, drives, fans, supplies, sensors
//	journal   the system event log
//	events    subscriptions, pushes, server-sent events
//	machine   the server behind it
//	fault     what can be wrong with an answer
//	endpoint  listener and certificate
//	web       the web interface of Supermicro's boards
//
// New settings and firmware take effect with the machine's next boot: before each
// request the BMC looks how often the machine has booted. Tasks take steps, not
// time: each read of one, or of the firmware inventory, is a step.
//
// One BMC is one listener and one goroutine while nobody calls, and about 20 KiB,
// so that one process holds 5,000; they share the certificate of an Authority.
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
