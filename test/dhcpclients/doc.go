// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcpclients proves the DHCP servers, for IPv4 and IPv6, and the router
// advertisements on the kernel's network with programs that others wrote: dhclient
// and udhcpc as clients, dnsmasq as the neighbour that also gives addresses, dhcrelay
// and dnsmasq as relays, the kernel as the host that hears advertisements. All run in network
// namespaces that the tests make (see lab/segment), which needs root.
//
// It holds tests only, and knows the server by its sockets and events.
//
//	go test ./test/dhcpclients # some 15 s
package dhcpclients
