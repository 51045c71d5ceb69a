// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sushy emulates the Redfish emulator of sushy-tools, which many labs put in front of
// their virtual machines (github.com/openstack/sushy-tools). It has the resources, paths and
// answers of commit 2b51921 (March 2026) that Ingot uses:
//
//   - HTTP without TLS unless a certificate is given, and one request per connection
//   - no session service: HTTP Basic authentication for all but the service root, or no
//     authentication at all
//   - one system and one manager with the same UUID, with virtual media below the system
//   - every boot override is persistent, whatever BootSourceOverrideEnabled is
//   - no ETags, 204 for each write, one error format for all refusals
//   - power actions take effect some seconds later (the fake driver), Secure Boot and BIOS
//     settings at once
//
// It must not import the client that it tests.
//
//	s, err := sushy.Start(sushy.Config{Machine: &machine.Bench{}, UUID: uuid, MACs: macs})
//	defer s.Close()
//	// s.Address() is redfish+http://127.0.0.1:41234
package sushy
