// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcp6 is the DHCPv6 side of the boot server (RFC 8415, RFC 5970). It finds hosts by
// MAC address in the Directory and ignores all other clients. On a Stateful network it gives
// each host its recorded address; on a Stateless network it gives only other options. In both
// modes the boot table of package dhcp decides what the host's firmware loads next.
//
// As in package dhcp, each packet is parsed, answered by a pure function (Reply), and sent.
// Reply sees the packet, its interface, the directory and the server's identity, so every
// replica gives the same answer, and golden packets test it. The Server itself remembers only
// declined addresses and recent warnings.
//
// A client's DUID identifies the running system, not the server: firmware, agent and installed
// system have different DUIDs, and copied images share one. So a host is found by the MAC
// address that its packets come from, and by the DUID only if they do not show one.
//
// The package must not know the purpose of a boot plan, allocate addresses, or keep state
// that an answer depends on.
//
//	srv := dhcp6.Server{Identity: dhcp6.NewIdentity(addr, "http://[2001:db8::1]:8880", loaders), Directory: dir}
//	conn, err := dhcp6.Listen(ctx, dhcp6.SocketConfig{Interfaces: []string{"eth0"}})
//	err = srv.Serve(ctx, conn)
package dhcp6
