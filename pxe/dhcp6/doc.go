// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcp6 is the boot server's DHCP side for IPv6 (RFC 8415, RFC 5970). It
// knows hosts by their MAC addresses, from the Directory, and is silent towards
// everybody else. On a Stateful network it gives each host the address recorded for
// it; on a Stateless one it tells hosts the rest. On either it tells the host's
// firmware what to load next, by the table of package dhcp.
//
// One packet goes parse → pure reply function → send, as in package dhcp: Reply sees
// the packet, where it came in, the directory and the server's identity, so any
// replica gives the same answer, and golden packets pin it. All that the Server
// remembers besides is which addresses were declined, and what it has warned of.
//
// A client's DUID names the system that runs, not the server: firmware, agent and
// installed system have different ones, and images that are copied have the same.
// So a host is found by the MAC address that its packets come from, and by the DUID
// only where they do not tell.
//
// It must not know what a boot plan is for, allocate addresses, or keep any state
// that an answer depends on.
//
//	srv := dhcp6.Server{Identity: dhcp6.NewIdentity(addr, "http://[2001:db8::1]:8880", loaders), Directory: dir}
//	conn, err := dhcp6.Listen(ctx, dhcp6.SocketConfig{Interfaces: []string{"eth0"}})
//	err = srv.Serve(ctx, conn)
package dhcp6
