// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootserver combines DHCP, TFTP and HTTP into one boot server with one address
// and one directory.
//
// Its caller opens the sockets, so that it runs on the host's network (ListenHost), in a
// network namespace, or on a network stack in user space. All sockets are open before the
// first answer: a port that is in use is an error at the start, not a boot that hangs.
//
// One reader per socket answers packets: with a reader per processor, each packet would wake a second
// thread only to wait. One boot server has one address in all its answers.
//
// It must not know Kubernetes. Package pxe has the types that it uses instead.
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
