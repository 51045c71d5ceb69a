// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ipv6 configures the boot NIC for IPv6: by DHCPv6 if routers say so or if there is no
// router, otherwise by the kernel's address from router advertisements. It also gets boot
// options by DHCPv6.
//
// It requires an interface that is up, and the kernel's autoconfiguration. Package boot
// chooses between IPv4 and IPv6.
//
//	config, err := ipv6.Configure(ctx, "eth0", ipv6.Options{Ask: true, Log: log})
//	go config.Keep(ctx)
//	told, err := config.Inform(ctx, "")
package ipv6
