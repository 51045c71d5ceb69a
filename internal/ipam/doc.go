// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipam allocates the IPv4 and IPv6 addresses of hosts' boot NICs, from the range of their
// IngotNetwork or the pool of an IPAM provider. It records them in IngotHardware before any power-on,
// so that the boot server only reads them. Package host decides when an address is recorded
// (lifecycle.RecordAddress), and keeps the Memory.
//
//	allocator := &ipam.Allocator{Client: c, Clock: clock, Warn: warn, Memory: &r.addresses}
//	held, err := allocator.Observe(ctx, ipam.View{Host: host, Hardware: facts, Network: network})
//	...
//	problem, err := allocator.Record(ctx, held.View)
package ipam
