// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redfish drives a server's BMC by Redfish (DMTF DSP0266, DSP0268) over
// verified TLS. It is the only home of gofish, of which it uses the client, the
// error format and the vocabulary; why not more, docs/decisions/0040 tells.
//
// It knows one server at a time and keeps no state but its session: how often
// it is called, and that it is called by one at a time, is bmc.Pool's work. It
// must not know Kubernetes, hosts or policy; it never repeats a write (I17).
//
// Events come as server-sent events, on the session of the calls and over a
// connection of their own; sse.go takes them apart in bounded memory.
//
// What makers do differently is in quirks.go, one entry with the answer it avoids
// (docs/decisions/0111); refusals that pass come back as bmc.BusyError.
//
//	conn, err := redfish.Dial(ctx, bmc.Target{
//		Address:  "redfish://192.0.2.10", // or …/redfish/v1/Systems/1
//		Username: "admin", Password: password,
//		CABundle: pem,
//	})
//	defer conn.Close(ctx)
//	state, err := conn.PowerState(ctx)
package redfish
