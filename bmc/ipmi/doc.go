// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipmi drives a server's BMC with IPMI v2.0 over RMCP+ ("lanplus"): UDP, cipher
// suite 17 and then 3, and its own sessions. It does not need ipmitool.
//
// It uses go-ipmi for the algorithms and tables of the standard: the keys and codes of RAKP, the
// messages of session setup, sensor records and event names. It has its own sessions and packets.
// go-ipmi's client accepts answers without checking their integrity, panics on some truncated ones,
// repeats writes, and sends keep-alives concurrently with the calls.
//
// A read, or a step of session setup, is repeated if no answer comes. A write is sent once, and a
// missing answer is bmc.ErrUnknownOutcome (I17). A BMC drops a session without notice after 60 s or
// when it restarts. So a session that was unused for 45 s, or that did not answer, is replaced
// before the next call. UDP does not distinguish a missing BMC from a hanging one.
//
// The package knows no Kubernetes, hosts or policy. It exports no type of go-ipmi.
//
//	conn, err := ipmi.Dial(ctx, bmc.Target{
//		Address:  "ipmi://192.0.2.10", // or ipmi://[2001:db8::10]:623
//		Username: "admin", Password: password,
//	})
//	defer conn.Close(ctx)
//	state, err := conn.PowerState(ctx)
package ipmi
