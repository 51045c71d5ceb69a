// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcp is the DHCPv4 side of the boot server. It finds hosts by MAC address in the
// Directory and ignores all other clients. On a network of mode Reserve it gives each host
// its recorded address; on a network of mode Proxy another server does. In both modes one
// table decides what the host's firmware loads next (docs/book/concepts/boot-sequence.md shows it).
//
// Each packet is parsed, answered by a pure function, and sent. The pure functions (Reply,
// ReplyBINL, InspectReply) see the packet, its interface, the directory and the server's
// identity, so every replica gives the same answer, and golden packets test them. In mode
// Proxy they also read which addresses hosts took (Query.Bindings), which every replica
// hears. The Server also remembers declined addresses and recent warnings. That memory is
// bounded, and no other replica needs it.
//
// Listen opens the socket for the host's network. Such a socket knows interfaces and relays,
// reaches clients without an address by Ethernet frames, and receives other servers' replies.
// Any other net.PacketConn counts as one segment.
//
// The package must not know the purpose of a boot plan, allocate addresses, or keep other
// state that an answer depends on.
//
//	srv := dhcp.Server{
//		Identity:  dhcp.Identity{Address: addr, BaseURL: "http://192.0.2.1:8880", Loaders: dhcp.DefaultLoaders()},
//		Directory: dir,
//	}
//	conn, err := dhcp.Listen(ctx, dhcp.SocketConfig{Interfaces: []string{"eth0"}, Source: addr})
//	err = srv.Serve(ctx, conn)
package dhcp
