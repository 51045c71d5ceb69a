// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipam finds the IPv4 and IPv6 addresses of hosts' boot NICs, in the range of
// their IngotNetwork or from the pool of an IPAM provider, and records them in
// IngotHardware: before any power-on, so that the boot server only reads them.
//
// It must not know how a host lives otherwise, nor its BMC: package host says when an
// address is to be recorded (lifecycle.RecordAddress), and keeps the Memory.
//
//	allocator := &ipam.Allocator{Client: c, Clock: clock, Warn: warn, Memory: &r.addresses}
//	held, err := allocator.Observe(ctx, ipam.View{Host: host, Hardware: facts, Network: network})
//	...
//	problem, err := allocator.Record(ctx, held.View)
package ipam
