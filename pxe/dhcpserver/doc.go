// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcpserver is what the DHCP servers for IPv4 and IPv6 do alike: the loop that
// reads a socket, what is remembered of declined addresses, and what people are told. It
// must not know packets.
//
//	err := dhcpserver.Read(ctx, log, "DHCP request", func() error {
//		n, err := conn.Read(buf)
//		if err == nil {
//			answer(buf[:n])
//		}
//		return err
//	})
package dhcpserver
