// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redfish drives a server's BMC over Redfish (DMTF DSP0266, DSP0268) with verified TLS.
// It is the only package that imports gofish: it uses the client, the error format and the
// constants (docs/decisions/0040 has the reasons).
//
// A connection serves one server at a time and keeps no state but its session; bmc.Pool limits
// the rate and serializes the calls. The package must not know Kubernetes, hosts or policy, and
// it never repeats a write (I17).
//
// Server-sent events use the token of the session and their own connection (sse.go).
//
// quirks.go lists the deviations of vendors, each with the BMC's answer that it avoids.
// Temporary refusals are returned as bmc.BusyError.
//
//	conn, err := redfish.Dial(ctx, bmc.Target{
//		Address:  "redfish://192.0.2.10", // or …/redfish/v1/Systems/1
//		Username: "admin", Password: password,
//		CABundle: pem,
//	})
//	defer conn.Close(ctx)
//	state, err := conn.PowerState(ctx)
package redfish
