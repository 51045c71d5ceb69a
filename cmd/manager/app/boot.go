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

// Required files in --agent-image-dir.
const (
	agentKernel    = "vmlinuz"
	agentInitramfs = "initramfs.cpio.zst"
)

// Sockets are the listeners of the roles.
type Sockets struct {
	// Agent accepts agents: for the agent API or, with only the role boot, for the forwarder.
	// AgentIPv6 is nil if Agent accepts both families or IPv6 is disabled.
	Agent, AgentIPv6 net.Listener
	// Boot is set for the role boot.
	Boot bootserver.Sockets
}

// Close closes all open sockets.
func (s *Sockets) Close() {
	if s.Agent != nil {
		_ = s.Agent.Close()
	}
	if s.AgentIPv6 != nil {
		_ = s.AgentIPv6.Close()
	}
	_ = s.Boot.Close()
}

// OpenSockets opens the sockets of the roles.
type OpenSockets func(ctx context.Context, o *Options) (*Sockets, error)

// HostSockets opens the sockets on the network of the process.
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
			return nil, fmt.Errorf("--agent-listen: IPv6: %w", err)
		}
	}
	return sockets, nil
}

// agents returns the listeners for agents.
func (s *Sockets) agents() []net.Listener {
	if s.AgentIPv6 == nil {
		return []net.Listener{s.Agent}
	}
	return []net.Listener{s.Agent, s.AgentIPv6}
}

// agentListen returns the listen address for agents. A boot server on the host's network binds to
// --boot-address, because other boot servers may use the same port.
func (o *Options) agentListen() string {
	host, port, err := net.SplitHostPort(o.AgentListen)
	if err == nil && host == "" && o.forwardsAgents() {
		return net.JoinHostPort(o.BootAddress, port)
	}
	return o.AgentListen
}

// addBootRole serves DHCP, TFTP and HTTP on every replica, and forwards agents unless this process
// serves the agent API.
func addBootRole(mgr manager.Manager, o *Options, id *identity, sockets *Sockets, bindings *pxe.AddressBindings) error {
	var services []func(context.Context) error
	var forwarder *passthrough.Forwarder
	if o.forwardsAgents() {
		var err error
		forwarder, err = passthrough.New(passthrough.Config{
			Upstream: o.AgentUpstream, Seal: id.keys.Seal, Hardware: bindings.At, Log: slog.New(logr.ToSlogHandler(mgr.GetLogger().WithName("passthrough"))),
		})
		if err != nil {
			return fmt.Errorf("--agent-upstream: %w", err)
		}
		services = append(services, func(ctx context.Context) error { return forwarder.Run(ctx, sockets.agents()...) })
	}
	bootMetrics, err := newBootMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	tracker := newTracker(mgr, o, id, forwarder, bootMetrics.boots)
	serve, err := bootServer(mgr, o, id, sockets, observability{bootMetrics, tracker}, bindings)
	if err != nil {
		return err
	}
	services = append(services, serve, tracker.Run)
	return mgr.Add(everywhere(func(ctx context.Context) error {
		// Requests before the cache sync would find no host, and firmware would give up.
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

// bootFiles are the files of the agent.
type bootFiles struct {
	registry          *pxe.Files
	kernel, initramfs pxe.File
	// uki is the agent as a unified kernel image. hasUKI is false without the stub.
	uki    agentProgram
	hasUKI bool
	// signed is empty without boot loaders for Secure Boot.
	signed bootserver.Signed
}

// agentFiles reads --agent-image-dir, and logs the consequences of missing files.
func agentFiles(o *Options, id *identity, log logr.Logger) (bootFiles, error) {
	out := bootFiles{registry: &pxe.Files{}}
	var err error
	if out.kernel, err = out.registry.Add(filepath.Join(o.AgentImageDir, agentKernel)); err != nil {
		return bootFiles{}, fmt.Errorf("--agent-image-dir: %w", err)
	}
	if out.initramfs, err = out.registry.Add(filepath.Join(o.AgentImageDir, agentInitramfs)); err != nil {
		return bootFiles{}, fmt.Errorf("--agent-image-dir: %w", err)
	}
	if out.uki, out.hasUKI, err = loadUKI(o, id.pins, out.registry); err != nil {
		return bootFiles{}, err
	}
	if !out.hasUKI {
		log.Info("No UEFI stub in --agent-image-dir; hosts cannot boot by HTTP or VirtualMedia", "stub", agentStub)
	}
	if out.signed, err = loadSigned(o.AgentImageDir); err != nil {
		return bootFiles{}, err
	}
	if len(out.signed.Shim) == 0 {
		log.Info("No shim in --agent-image-dir; hosts with Secure Boot cannot boot by PXE", "shim", agentShim)
	}
	return out, nil
}

// imageCache returns the cache in --image-cache-dir for the images of the hosts in dir.
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

// bootServer returns a function that runs the DHCP, TFTP and HTTP servers.
func bootServer(mgr manager.Manager, o *Options, id *identity, sockets *Sockets, obs observability, bindings *pxe.AddressBindings) (func(context.Context) error, error) {
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
		Kernel: agent.kernel, Initrds: []pxe.File{agent.initramfs}, Unified: agent.uki.file, Arguments: o.AgentArguments,
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
	ipv6, err := ipv6Config(ipv6Address, dir)
	if err != nil {
		return nil, err
	}
	var discs pxe.MediaDirectory
	if agent.hasUKI {
		discs = dir
	}
	server, err := bootserver.New(bootserver.Config{
		MediaDirectory: discs, MediaTemplate: agent.uki.disc,
		Address: address, IPv6: ipv6, HTTPPort: o.BootHTTPPort, LoaderDir: o.LoaderDir, Signed: agent.signed,
		Directory: dir, Files: agent.registry, Bindings: bindings, Images: images, SinglePortTFTP: o.TFTPSinglePort, MaxConnsPerClient: o.BootClientConnections,
		Observer: observers(bootLog(log), obs.tracker), DHCPMetrics: obs.metrics.dhcp, TFTPMetrics: obs.metrics.tftp, HTTPMetrics: obs.metrics.http,
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
			return fmt.Errorf("watch the hosts for the boot server: %w", err)
		}
		return server.Run(ctx, sockets.Boot)
	}, nil
}
