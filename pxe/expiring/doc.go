// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expiring holds sets whose members leave by themselves: what a boot server
// remembers of packets for a while, bounded whatever is sent to it. It knows no packet.
//
//	var declined expiring.Set[netip.Addr]
//	declined.Add(address, now, 10*time.Minute)
package expiring
