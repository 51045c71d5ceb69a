// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcpserver is the common part of the DHCPv4 and DHCPv6 servers: the read loop, the
// memory of declined addresses, and the warnings in the log. It must not know packets.
//
//	err := dhcpserver.Read(ctx, log, "DHCP request", func() error {
//		n, err := conn.Read(buf)
//		if err == nil {
//			answer(buf[:n])
//		}
//		return err
//	})
package dhcpserver
