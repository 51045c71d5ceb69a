// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vendor drives BMCs in their makers' own ways, by bmclib and for Intel AMT by a
// client of its own, for what Redfish and IPMI lack: exactly one driver for a host, the
// one that the address names. There is no registry and no trying of one driver after another, so
// that nothing waits for the slowest, and nothing that timed out is repeated by the
// next.
//
// dell, supermicro and openbmc speak Redfish by our own driver, with all that it
// can, and leave the pushing of firmware to bmclib: the session of the one ends
// before that of the other begins. intelamt and rpc have power and the next boot's
// device, which they can set and not read.
//
// The library is kept on a short leash. Each call runs on a goroutine of its own
// and returns to the caller by its deadline, also where the library sleeps or
// forgets its context: a write is then bmc.ErrUnknownOutcome (I17), a read
// bmc.ErrTimeout, and the connection is replaced. Every request goes over a wire of
// ours, which verifies the certificate, has the call's context, bounds the answer
// and takes its pace from the pool; drivers that insist on an HTTP client of their
// own reach it through a relay on the loopback. Panics are bmc.ErrProtocol. Nothing
// of what the library logs is kept.
//
// It must not know Kubernetes, hosts or policy. No type of bmclib leaves it.
//
//	for _, d := range vendor.Drivers() { // vendor+dell, vendor+rpc, …
//		conn, err := d.Dial(ctx, bmc.Target{Address: "vendor+dell://192.0.2.10", …})
//		defer conn.Close(ctx)
//		task, err := conn.UpdateFirmware(ctx, bmc.Update{Image: image, Size: size, Filename: "BIOS_1.9.EXE"})
//	}
package vendor
