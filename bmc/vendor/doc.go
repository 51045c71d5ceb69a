// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vendor has the vendor drivers: bmclib and a client for Intel AMT, for what Redfish and
// IPMI cannot do. The scheme of the address selects exactly one driver. No other driver is tried,
// so no call waits for the slowest, and no other driver repeats a call that timed out.
//
// dell, supermicro and openbmc use package redfish for everything but pushed firmware, which
// bmclib uploads: the session of one ends before that of the other begins. intelamt and rpc can
// only switch power and set the next boot device, which they cannot read.
//
// bmclib is isolated:
//   - Each call runs on its own goroutine and returns by its deadline, even if bmclib sleeps or
//     ignores its context: a write then returns bmc.ErrUnknownOutcome (I17), a read
//     bmc.ErrTimeout, and the connection is replaced.
//   - Every request uses wire, which verifies the certificate, applies the context of the call,
//     bounds the answer and obeys the pool's rate limit. Drivers with their own HTTP client
//     reach it through a relay on the loopback interface.
//   - Panics become bmc.ErrProtocol, and the log of bmclib is dropped.
//
// The package must not know Kubernetes, hosts or policy. No type of bmclib leaves it.
//
//	for _, d := range vendor.Drivers() { // vendor+dell, vendor+rpc, …
//		conn, err := d.Dial(ctx, bmc.Target{Address: "vendor+dell://192.0.2.10", …})
//		defer conn.Close(ctx)
//		task, err := conn.UpdateFirmware(ctx, bmc.Update{Image: image, Size: size, Filename: "BIOS_1.9.EXE"})
//	}
package vendor
