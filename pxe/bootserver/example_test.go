// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/dhcp6"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/pxe/ra"
)

// A boot server on the host's network. It is compiled, and never run.
func Example() {
	ctx := context.Background()
	if err := serve(ctx, pxe.Table{}, &pxe.Files{}); err != nil {
		fmt.Println(err)
	}
}

func serve(ctx context.Context, dir pxe.Table, files *pxe.Files) error {
	cfg := bootserver.Config{
		Address: netip.MustParseAddr("192.0.2.1"), HTTPPort: 8880,
		LoaderDir: "/usr/lib/ipxe", Loaders: dhcp.DefaultLoaders(),
		Directory: dir, Files: files,
	}
	srv, err := bootserver.New(cfg)
	if err != nil {
		return err
	}
	sockets, err := bootserver.ListenHost(ctx, "eth0", cfg)
	if err != nil {
		return err
	}
	return srv.Run(ctx, sockets)
}

// Its parts alone: router advertisements, DHCPv6, and files by HTTP.
func Example_parts() {
	ctx := context.Background()
	fmt.Println(advertise(ctx, nil), serve6(ctx, pxe.Table{}), files(ctx, nil, pxe.Table{}, &pxe.Files{}))
}

func advertise(ctx context.Context, networks pxe.Advertised) error {
	conn, err := ra.Listen(ctx, ra.SocketConfig{Interfaces: []string{"eth0"}})
	if err != nil {
		return err
	}
	return (&ra.Server{Networks: networks}).Serve(ctx, conn)
}

func serve6(ctx context.Context, dir pxe.Directory) error {
	srv := dhcp6.Server{
		Identity:  dhcp6.NewIdentity(netip.MustParseAddr("2001:db8::1"), "http://[2001:db8::1]:8880", dhcp.DefaultLoaders()),
		Directory: dir,
	}
	conn, err := dhcp6.Listen(ctx, dhcp6.SocketConfig{Interfaces: []string{"eth0"}})
	if err != nil {
		return err
	}
	return srv.Serve(ctx, conn)
}

func files(ctx context.Context, listener net.Listener, dir pxe.Directory, files *pxe.Files) error {
	h := &httpd.Handler{BaseURL: "http://192.0.2.1:8880", Directory: dir, Files: files}
	return httpd.Serve(ctx, listener, h, httpd.Options{})
}
