// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ra sends router advertisements (RFC 4861) in place of a router, on networks
// whose IngotNetwork asks for it: they tell hosts the prefix and whether to ask by
// DHCPv6. Firmware waits for one before it asks, for seconds where there is none.
//
// What is said is a pure function of the network (Message); when, of what was said
// before (pacing): an answer to a solicitation is put off by chance, and one interface
// gets no more than one in three seconds, whatever it asks for.
//
// An advertisement makes nobody a default router unless its network asks for that. It
// must not know hosts: routers speak to all alike.
//
//	conn, err := ra.Listen(ctx, ra.SocketConfig{Interfaces: []string{"eth0"}})
//	err = (&ra.Server{Networks: dir}).Serve(ctx, conn)
package ra
