// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcp is the boot server's DHCP side, for IPv4. It knows hosts by their
// MAC addresses, from the Directory, and is silent towards everybody else. On a
// network of mode Reserve it gives each host the address recorded for it; on one of
// mode Proxy another server does. On either it tells the host's firmware what to
// load next, by one table (networks.md in the operator's book shows it).
//
// One packet goes parse → pure reply function → send. The reply functions (Reply,
// ReplyBINL, Overheard) see the packet, where it came in, the directory and the
// server's identity, so any replica gives the same answer, and golden packets pin it.
// In mode Proxy they also see which addresses hosts took (Query.Bindings): every replica
// hears that. What the Server remembers besides, declined addresses and what it has
// warned of, is bounded and needed by no other replica.
//
// Listen opens the socket for the host's network: it knows interfaces and relays,
// reaches clients without an address by Ethernet frames, and overhears other
// servers. Any other net.PacketConn is taken for one segment.
//
// It must not know what a boot plan is for, allocate addresses, or keep any other state
// that an answer depends on.
//
//	srv := dhcp.Server{
//		Identity:  dhcp.Identity{Address: addr, BaseURL: "http://192.0.2.1:8880", Loaders: dhcp.DefaultLoaders()},
//		Directory: dir,
//	}
//	conn, err := dhcp.Listen(ctx, dhcp.SocketConfig{Interfaces: []string{"eth0"}, Source: addr})
//	err = srv.Serve(ctx, conn)
package dhcp
