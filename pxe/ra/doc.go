// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ra sends router advertisements (RFC 4861) for networks whose IngotNetwork requests
// them, where no router does. An advertisement contains the prefix and whether to use DHCPv6.
// Firmware waits for one before it uses DHCPv6, and loses seconds without it.
//
// The content is a pure function of the networks (Message), and the time a function of earlier
// messages (pacing): the answer to a solicitation has a random delay, and one interface gets
// at most one advertisement in three seconds.
//
// An advertisement makes no default router unless its network asks for that. The package must
// not know hosts: advertisements are the same for all.
//
//	conn, err := ra.Listen(ctx, ra.SocketConfig{Interfaces: []string{"eth0"}})
//	err = (&ra.Server{Networks: dir}).Serve(ctx, conn)
package ra
