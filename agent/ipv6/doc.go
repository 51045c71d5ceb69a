// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipv6 gives the boot NIC an IPv6 address, as the network wants it: by DHCPv6
// where routers say so or say nothing, else the one that the kernel makes of what they
// advertise. It also asks by DHCPv6 where the order is, when the boot did not say.
//
// It needs an interface that is up, and the kernel's own autoconfiguration. It knows no
// order and no session, and decides nothing about IPv4: package boot does.
//
//	config, err := ipv6.Configure(ctx, "eth0", ipv6.Options{Ask: true, Log: log})
//	go config.Keep(ctx)
//	told, err := config.Inform(ctx, "")
package ipv6
