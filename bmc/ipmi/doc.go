// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipmi drives a server's BMC by IPMI v2.0 over RMCP+ ("lanplus"): UDP,
// cipher suite 17 and then 3, a session of its own. No ipmitool is needed.
//
// It uses go-ipmi for what is the standard's arithmetic and tables: the keys and
// codes of RAKP, the messages of session setup, sensor records and the names of
// events. The session and its packets are its own, because go-ipmi's client
// takes answers whose integrity it has not checked, panics on some that are cut
// short, repeats writes, and sends keep-alives beside the calls.
//
// What is sent: a read, or a step of session setup, is repeated when no answer
// comes; a write is sent once, and no answer to it is bmc.ErrUnknownOutcome
// (I17). A BMC forgets a session in silence, after 60 s or a restart of its own:
// a session that was unused for 45 s, or that did not answer, is replaced before
// the next call. UDP cannot tell a BMC that is not there from one that hangs.
//
// It must not know Kubernetes, hosts or policy. No type of go-ipmi leaves it.
//
//	conn, err := ipmi.Dial(ctx, bmc.Target{
//		Address:  "ipmi://192.0.2.10", // or ipmi://[2001:db8::10]:623
//		Username: "admin", Password: password,
//	})
//	defer conn.Close(ctx)
//	state, err := conn.PowerState(ctx)
package ipmi
