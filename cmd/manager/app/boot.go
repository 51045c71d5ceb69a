// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ingot-metal/ingot/controllers/directory"
	"github.com/ingot-metal/ingot/controllers/token"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

// Files of the agent image.
const (
	agentKernel    = "vmlinuz"
	agentInitramfs = "initramfs.cpio.zst"
)

// Sockets are what the roles listen on.
type Sockets struct {
	// Agent is set for the role controllers, Boot for the role boot.
	Agent net.Listener
	Boot  bootserver.Sockets
}

// Close closes what is open; what a server has taken over is closed by it too.
func (s *Sockets) Close() {
	if s.Agent != nil {
		_ = s.Agent.Close()
	}
	_ = s.Boot.Close()
}

// OpenSockets opens the sockets that the roles need.
type OpenSockets func(ctx context.Context, o *Options) (*Sockets, error)

// HostSockets opens them on the network of the process.
func HostSockets(ctx context.Context, o *Options) (*Sockets, error) {
	sockets := &Sockets{}
	if o.Has(RoleControllers) {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.AgentListen)
		if err != nil {
			return nil, fmt.Errorf("--agent-listen: %w", err)
		}
		sockets.Agent = listener
	}
	if !o.Has(RoleBoot) {
		return sockets, nil
	}
	address, err := netip.ParseAddr(o.BootAddress)
	if err != nil {
		return nil, fmt.Errorf("--boot-address: %w", err)
	}
	boot, err := bootserver.ListenHost(ctx, o.BootInterface, bootserver.Config{Address: address, HTTPPort: o.BootHTTPPort})
	if err != nil {
		sockets.Close()
		return nil, err
	}
	sockets.Boot = boot
	return sockets, nil
}

// addBootServer serves DHCP, TFTP and HTTP on every replica.
func addBootServer(mgr manager.Manager, o *Options, keys token.Keys, pins []token.Pin, sockets *Sockets) error {
	files := &pxe.Files{}
	kernel, err := files.Add(filepath.Join(o.AgentImageDir, agentKernel))
	if err != nil {
		return fmt.Errorf("--agent-image-dir: %w", err)
	}
	initramfs, err := files.Add(filepath.Join(o.AgentImageDir, agentInitramfs))
	if err != nil {
		return fmt.Errorf("--agent-image-dir: %w", err)
	}
	log := mgr.GetLogger().WithName("boot")
	dir := directory.New(directory.Options{
		Cache: mgr.GetClient(), Keys: keys, Pins: pins, Server: o.AgentAddress,
		Kernel: kernel, Initrds: []pxe.File{initramfs}, Arguments: o.AgentArguments,
		Clock: clock.RealClock{}, Log: log,
	})
	images, err := httpd.NewImageCache(httpd.CacheConfig{Dir: o.ImageCacheDir, MaxBytes: o.ImageCacheGiB << 30, Sources: dir})
	if err != nil {
		return fmt.Errorf("--image-cache-dir: %w", err)
	}
	address, err := netip.ParseAddr(o.BootAddress)
	if err != nil {
		return fmt.Errorf("--boot-address: %w", err)
	}
	server, err := bootserver.New(bootserver.Config{
		Address: address, HTTPPort: o.BootHTTPPort, LoaderDir: o.LoaderDir,
		Directory: dir, Files: files, Images: images,
		Observer: bootLog(log), Log: slog.New(logr.ToSlogHandler(log)),
	})
	if err != nil {
		return err
	}
	return mgr.Add(everywhere(func(ctx context.Context) error {
		// No answer before the cache knows the hosts: silence would make firmware give up.
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return nil
		}
		return server.Run(ctx, sockets.Boot)
	}))
}

// bootLog writes the steps of boots to the log.
func bootLog(log logr.Logger) pxe.Observer {
	return pxe.ObserverFunc(func(e pxe.BootEvent) {
		log.V(1).Info("Boot", "stage", e.Stage, "mac", e.MAC.String(), "client", e.Client.String(), "detail", e.Detail)
	})
}
