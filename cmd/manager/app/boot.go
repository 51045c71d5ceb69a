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
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ingot-metal/ingot/internal/bootconfig"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/pxe/passthrough"
)

// Files of the agent image.
const (
	agentKernel    = "vmlinuz"
	agentInitramfs = "initramfs.cpio.zst"
)

// Sockets are what the roles listen on.
type Sockets struct {
	// Agent is where agents connect: to the agent API in the role controllers, to
	// what passes them on to it in the role boot alone. AgentIPv6 is the same by IPv6;
	// nil: there is none, or Agent takes both.
	Agent, AgentIPv6 net.Listener
	// Boot is set for the role boot.
	Boot bootserver.Sockets
}

// Close closes what is open; what a server has taken over is closed by it too.
func (s *Sockets) Close() {
	if s.Agent != nil {
		_ = s.Agent.Close()
	}
	if s.AgentIPv6 != nil {
		_ = s.AgentIPv6.Close()
	}
	_ = s.Boot.Close()
}

// OpenSockets opens the sockets that the roles need.
type OpenSockets func(ctx context.Context, o *Options) (*Sockets, error)

// HostSockets opens them on the network of the process.
func HostSockets(ctx context.Context, o *Options) (*Sockets, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.agentListen())
	if err != nil {
		return nil, fmt.Errorf("--agent-listen: %w", err)
	}
	sockets := &Sockets{Agent: listener}
	if !o.Has(RoleBoot) {
		return sockets, nil
	}
	address, err := netip.ParseAddr(o.BootAddress)
	if err != nil {
		sockets.Close()
		return nil, fmt.Errorf("--boot-address: %w", err)
	}
	ipv6, err := o.bootIPv6(interfaceAddresses)
	if err != nil {
		sockets.Close()
		return nil, err
	}
	boot, err := bootserver.ListenHost(ctx, o.BootInterface, bootserver.Config{
		Address: address, IPv6: bootserver.ConfigIPv6{Address: ipv6}, HTTPPort: o.BootHTTPPort,
	})
	if err != nil {
		sockets.Close()
		return nil, err
	}
	sockets.Boot = boot
	if at := o.agentListenIPv6(ipv6); at != "" {
		if sockets.AgentIPv6, err = (&net.ListenConfig{}).Listen(ctx, "tcp6", at); err != nil {
			sockets.Close()
			return nil, fmt.Errorf("--agent-listen, for IPv6: %w", err)
		}
	}
	return sockets, nil
}

// agents are the listeners that agents come to.
func (s *Sockets) agents() []net.Listener {
	if s.AgentIPv6 == nil {
		return []net.Listener{s.Agent}
	}
	return []net.Listener{s.Agent, s.AgentIPv6}
}

// agentListen is --agent-listen; on the host's network, where the boot server is one
// of many, it is bound to the boot server's address.
func (o *Options) agentListen() string {
	host, port, err := net.SplitHostPort(o.AgentListen)
	if err == nil && host == "" && o.passesAgents() {
		return net.JoinHostPort(o.BootAddress, port)
	}
	return o.AgentListen
}

// addBootRole serves DHCP, TFTP and HTTP, and agents unless their API is in this
// process, on every replica.
func addBootRole(mgr manager.Manager, o *Options, id *identity, sockets *Sockets, bindings *pxe.AddressBindings) error {
	var services []func(context.Context) error
	var forwarder *passthrough.Forwarder
	if o.passesAgents() {
		var err error
		forwarder, err = passthrough.New(passthrough.Config{
			Upstream: o.AgentUpstream, Seal: id.keys.Seal, Hardware: bindings.At, Log: slog.New(logr.ToSlogHandler(mgr.GetLogger().WithName("passthrough"))),
		})
		if err != nil {
			return fmt.Errorf("--agent-upstream: %w", err)
		}
		services = append(services, func(ctx context.Context) error { return forwarder.Run(ctx, sockets.agents()...) })
	}
	measures, err := newBootMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	tracker := newTracker(mgr, o, id, forwarder, measures.boots)
	serve, err := bootServer(mgr, o, id, sockets, seen{measures, tracker}, bindings)
	if err != nil {
		return err
	}
	services = append(services, serve, tracker.Run)
	return mgr.Add(everywhere(func(ctx context.Context) error {
		// No answer before the cache knows the hosts: silence would make firmware give up.
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return nil
		}
		group, ctx := errgroup.WithContext(ctx)
		for _, service := range services {
			group.Go(func() error { return service(ctx) })
		}
		return group.Wait()
	}))
}

// bootFiles are what hosts boot from.
type bootFiles struct {
	registry          *pxe.Files
	kernel, initramfs pxe.File
	// whole is the agent as one UEFI program; without the stub, hasWhole is false.
	whole    unified
	hasWhole bool
	// signed is empty where the directory has no boot loaders for Secure Boot.
	signed bootserver.Signed
}

// agentFiles reads --agent-image-dir, and says what hosts cannot do without what is missing.
func agentFiles(o *Options, id *identity, log logr.Logger) (bootFiles, error) {
	out := bootFiles{registry: &pxe.Files{}}
	var err error
	if out.kernel, err = out.registry.Add(filepath.Join(o.AgentImageDir, agentKernel)); err != nil {
		return bootFiles{}, fmt.Errorf("--agent-image-dir: %w", err)
	}
	if out.initramfs, err = out.registry.Add(filepath.Join(o.AgentImageDir, agentInitramfs)); err != nil {
		return bootFiles{}, fmt.Errorf("--agent-image-dir: %w", err)
	}
	if out.whole, out.hasWhole, err = loadUnified(o, id.pins, out.registry); err != nil {
		return bootFiles{}, err
	}
	if !out.hasWhole {
		log.Info("There is no stub in --agent-image-dir: no host boots by HTTP or VirtualMedia", "stub", agentStub)
	}
	if out.signed, err = loadSigned(o.AgentImageDir); err != nil {
		return bootFiles{}, err
	}
	if len(out.signed.Shim) == 0 {
		log.Info("There is no shim in --agent-image-dir: hosts with Secure Boot do not boot by PXE", "shim", agentShim)
	}
	return out, nil
}

// imageCache keeps images at --image-cache-dir, by which sources the directory says.
func imageCache(o *Options, dir *bootconfig.Directory, log logr.Logger) (*httpd.ImageCache, error) {
	client, err := o.Images.client()
	if err != nil {
		return nil, err
	}
	images, err := httpd.NewImageCache(httpd.CacheConfig{
		Dir: o.ImageCacheDir, MaxBytes: o.ImageCacheGiB << 30, Sources: dir, Client: client, Log: slog.New(logr.ToSlogHandler(log.WithName("images"))),
	})
	if err != nil {
		return nil, fmt.Errorf("--image-cache-dir: %w", err)
	}
	return images, nil
}

// bootServer makes the server of DHCP, TFTP and HTTP, and returns what runs it.
func bootServer(mgr manager.Manager, o *Options, id *identity, sockets *Sockets, by seen, bindings *pxe.AddressBindings) (func(context.Context) error, error) {
	log := mgr.GetLogger().WithName("boot")
	agent, err := agentFiles(o, id, log)
	if err != nil {
		return nil, err
	}
	ipv6Address, err := o.bootIPv6(interfaceAddresses)
	if err != nil {
		return nil, err
	}
	dir := bootconfig.New(bootconfig.Options{
		Cache: mgr.GetClient(), Keys: id.keys, Pins: id.pins, Server: o.agentAddress(), ServerIPv6: o.agentAddressIPv6(ipv6Address),
		Kernel: agent.kernel, Initrds: []pxe.File{agent.initramfs}, Unified: agent.whole.file, Arguments: o.AgentArguments,
		Clock: clock.RealClock{}, Log: log,
	})
	images, err := imageCache(o, dir, log)
	if err != nil {
		return nil, err
	}
	address, err := netip.ParseAddr(o.BootAddress)
	if err != nil {
		return nil, fmt.Errorf("--boot-address: %w", err)
	}
	ipv6, err := ipv6Side(ipv6Address, dir)
	if err != nil {
		return nil, err
	}
	var discs pxe.DiscDirectory
	if agent.hasWhole {
		discs = dir
	}
	server, err := bootserver.New(bootserver.Config{
		Discs: discs, Disc: agent.whole.disc,
		Address: address, IPv6: ipv6, HTTPPort: o.BootHTTPPort, LoaderDir: o.LoaderDir, Signed: agent.signed,
		Directory: dir, Files: agent.registry, Bindings: bindings, Images: images, SinglePortTFTP: o.TFTPSinglePort, MaxConnsPerClient: o.BootClientConnections,
		Observer: observers(bootLog(log), by.tracker), DHCPMetrics: by.metrics.dhcp, TFTPMetrics: by.metrics.tftp, HTTPMetrics: by.metrics.http,
		Log: slog.New(logr.ToSlogHandler(log)),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		err := dir.Follow(ctx, mgr.GetCache())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("look-ups of hosts: %w", err)
		}
		return server.Run(ctx, sockets.Boot)
	}, nil
}
