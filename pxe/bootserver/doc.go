// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootserver puts DHCP, TFTP and HTTP together into one boot server
// that shares an address, a directory and an end.
//
// It takes its sockets from outside, so that it runs the same on the host's
// network (ListenHost), in a network namespace, or on a network stack in user
// space. All sockets are open before anything is served: a port that is taken
// is an error at the start, not a boot that hangs.
//
// It must not know Kubernetes; package pxe says what it knows instead.
//
//	cfg := bootserver.Config{
//		Address: netip.MustParseAddr("192.0.2.1"), HTTPPort: 8880,
//		LoaderDir: "/usr/lib/ipxe", Loaders: dhcp.DefaultLoaders(),
//		Directory: dir, Files: &files, Images: cache,
//	}
//	srv, err := bootserver.New(cfg)
//	sockets, err := bootserver.ListenHost(ctx, "eth0", cfg)
//	err = srv.Run(ctx, sockets)
package bootserver
