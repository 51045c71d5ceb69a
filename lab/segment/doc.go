// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package segment joins network namespaces of this machine by Ethernet segments,
// for programs that want the kernel's own network: DHCP clients, relays, servers
// that others wrote. It needs root, and touches no interface that it did not
// make. Package network is the same in user space, for everybody else.
//
// It must not know what the rooms are for.
//
//	boot, err := segment.NewRoom()     // a network namespace
//	defer boot.Close()
//	client, err := segment.NewRoom()
//	lan, err := segment.New()          // a bridge, in a namespace of its own
//	err = lan.Join(boot, "eth0", segment.Port{Address: netip.MustParsePrefix("192.0.2.1/24")})
//	err = lan.Join(client, "eth0", segment.Port{MAC: mac})
//	err = boot.Do(func() error { socket, err = net.ListenPacket("udp4", ":67"); return err })
//	cmd := exec.CommandContext(ctx, "dhclient", "eth0")
//	err = client.Start(cmd)
package segment
