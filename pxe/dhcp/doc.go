// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dhcp is the boot server's DHCP side, in Reserve mode: it gives each
// MAC address that the Directory knows the address recorded for it, tells its
// firmware what to load next, and is silent towards everybody else.
//
// One packet goes parse → pure reply function → send. The reply function
// (Reply) sees the packet, the directory and the server's identity, nothing
// else, so any replica gives the same answer, and golden packets pin it.
//
// It must not know what a boot plan is for, allocate addresses, or keep any
// state about clients.
//
//	srv := dhcp.Server{
//		Identity:  dhcp.Identity{Address: addr, BaseURL: "http://192.0.2.1:8880", Loaders: dhcp.DebianLoaders},
//		Directory: dir,
//	}
//	err := srv.Serve(ctx, conn) // conn is bound to port 67
package dhcp
