// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/pxe/media"
	"github.com/ingot-metal/ingot/pxe/script"
	"github.com/ingot-metal/ingot/pxe/tftp"
)

// The ports that are fixed: DHCP, BINL, TFTP, and boot HTTP's default.
const (
	DHCPPort        = 67
	BINLPort        = 4011
	TFTPPort        = 69
	DefaultHTTPPort = 8880
)

// Config configures a boot server. Fields are required unless they say
// otherwise.
type Config struct {
	// Address is the IPv4 address by which booting servers reach this one. It
	// is in every answer, so replicas have different ones.
	Address netip.Addr
	// IPv6 is served besides, where it has an address.
	IPv6 ConfigIPv6
	// HTTPPort is the port of Sockets.HTTP; 0 means DefaultHTTPPort.
	HTTPPort uint16
	// LoaderDir holds the iPXE binaries that Loaders names.
	LoaderDir string
	// Loaders are the files for each firmware; the zero value means
	// dhcp.DefaultLoaders. The small ones for BIOS and x64 UEFI must be in
	// LoaderDir; of the others those are given that are.
	Loaders dhcp.Loaders
	// Signed are the loaders for firmware with Secure Boot; the zero value: there are
	// none.
	Signed Signed
	// Directory answers what each host boots.
	Directory pxe.Directory
	// Files are the kernels and initramfs images.
	Files *pxe.Files
	// Bindings are filled by DHCP, and say to whom boot scripts are given on networks of
	// mode Proxy. Nil: the server makes its own.
	Bindings *pxe.AddressBindings
	// Discs and Disc are what CD images of hosts are made of; both nil: there are none.
	Discs pxe.DiscDirectory
	Disc  *media.Template
	// Images is the cache of OS images; nil: none are served. The server runs
	// it.
	Images *httpd.ImageCache
	// SinglePortTFTP sends TFTP from port 69 alone, for networks whose firewalls
	// let no other through.
	SinglePortTFTP bool
	// MaxConnsPerClient bounds the HTTP connections of one address; 0 means
	// httpd.DefaultMaxConnsPerClient.
	MaxConnsPerClient int
	// Observer, the metrics and Log may be nil.
	Observer    pxe.Observer
	DHCPMetrics *dhcp.Metrics
	TFTPMetrics *tftp.Metrics
	HTTPMetrics *httpd.Metrics
	Log         *slog.Logger
}

// Sockets are what the server listens on. Run closes them.
type Sockets struct {
	// DHCP is bound to port 67 and may send to 255.255.255.255. A *dhcp.Socket
	// serves several interfaces.
	DHCP net.PacketConn
	// BINL is bound to port 4011, where UEFI asks for its boot file.
	BINL net.PacketConn
	// TFTP is bound to port 69.
	TFTP net.PacketConn
	// DialTFTP opens the socket of one TFTP transfer, for IPv6 as well. Nil means a socket
	// of the kernel, of the address of TFTP.
	DialTFTP func(client netip.AddrPort) (net.Conn, error)
	// HTTP listens on the configured port.
	HTTP net.Listener
	// IPv6 is needed where Config.IPv6 has an address.
	IPv6 SocketsIPv6
}

// Close closes what is open.
func (s Sockets) Close() error {
	return errors.Join(closeOpen(s.DHCP, s.BINL, s.TFTP, s.HTTP), s.IPv6.Close())
}

// closeOpen closes those that are not nil.
func closeOpen(sockets ...io.Closer) error {
	var errs []error
	for _, socket := range sockets {
		if socket != nil {
			errs = append(errs, socket.Close())
		}
	}
	return errors.Join(errs...)
}

// Server is a boot server that has not opened anything yet.
type Server struct {
	cfg     Config
	baseURL string
	// autoexec is the script that iPXE binaries ask for where they came from.
	autoexec string
	// memory has the files that TFTP serves besides those of LoaderDir, by name.
	memory map[string][]byte
}

// New checks a configuration, down to the loaders being there.
func New(cfg Config) (*Server, error) {
	if !cfg.Address.Is4() {
		return nil, fmt.Errorf("boot server address %q is not IPv4", cfg.Address)
	}
	if err := cfg.IPv6.check(); err != nil {
		return nil, err
	}
	if cfg.Directory == nil || cfg.Files == nil {
		return nil, errors.New("boot server needs a directory of hosts and one of files")
	}
	if (cfg.Discs == nil) != (cfg.Disc == nil) {
		return nil, errors.New("boot server needs the directory of CD images and their template, or neither")
	}
	if cfg.HTTPPort == 0 {
		cfg.HTTPPort = DefaultHTTPPort
	}
	if cfg.Bindings == nil {
		cfg.Bindings = &pxe.AddressBindings{}
	}
	if cfg.Loaders == (dhcp.Loaders{}) {
		cfg.Loaders = dhcp.DefaultLoaders()
	}
	s := &Server{cfg: cfg}
	s.baseURL = "http://" + net.JoinHostPort(cfg.Address.String(), strconv.Itoa(int(cfg.HTTPPort)))
	var err error
	if s.autoexec, err = script.AutoExec(s.baseURL); err != nil {
		return nil, fmt.Errorf("make autoexec.ipxe: %w", err)
	}
	if err := s.keepInMemory(); err != nil {
		return nil, err
	}
	loaders, err := s.openLoaders()
	if err != nil {
		return nil, err
	}
	defer func() { _ = loaders.Close() }()
	if s.cfg.Loaders, err = present(loaders, cfg.Loaders); err != nil {
		return nil, fmt.Errorf("%w in %s", err, cfg.LoaderDir)
	}
	return s, nil
}

// keepInMemory collects the files of TFTP that are in no directory.
func (s *Server) keepInMemory() error {
	s.memory = map[string][]byte{"autoexec.ipxe": []byte(s.autoexec)}
	return s.cfg.Signed.addTo(s.memory, s.baseURL)
}

// present leaves of the loaders those that can be served. Debian's ipxe.efi, a link
// to another directory, cannot.
func present(files tftp.Files, loaders dhcp.Loaders) (dhcp.Loaders, error) {
	kept := loaders.Keep(func(name string) bool {
		f, err := files.Open(netip.Addr{}, name)
		if err == nil {
			_ = f.Close()
		}
		return err == nil
	})
	for _, name := range []string{loaders.Small.BIOS, loaders.Small.UEFI} {
		if slices.Contains(kept.Names(), name) {
			continue
		}
		_, err := files.Open(netip.Addr{}, name)
		return kept, fmt.Errorf("boot loader %s is missing (Debian: package ipxe): %w", name, err)
	}
	return kept, nil
}

// BaseURL is the server's HTTP address as its scripts say it.
func (s *Server) BaseURL() string { return s.baseURL }

func (s *Server) openLoaders() (*tftp.Dir, error) {
	d, err := tftp.OpenDir(s.cfg.LoaderDir, s.memory)
	if err != nil {
		return nil, fmt.Errorf("boot server: %w", err)
	}
	return d, nil
}

// Run serves until ctx ends (nil error) or one of the servers fails, which
// ends the others. It may be called once for each set of sockets.
func (s *Server) Run(ctx context.Context, sockets Sockets) error {
	defer func() { _ = sockets.Close() }()
	loaders, err := s.openLoaders()
	if err != nil {
		return err
	}
	defer func() { _ = loaders.Close() }()

	g, ctx := errgroup.WithContext(ctx)
	dhcpServer := dhcp.Server{
		Identity:  dhcp.Identity{Address: s.cfg.Address, BaseURL: s.baseURL, Loaders: s.cfg.Loaders},
		Directory: s.cfg.Directory, Bindings: s.cfg.Bindings, Observer: s.cfg.Observer, Metrics: s.cfg.DHCPMetrics, Log: s.cfg.Log,
	}
	g.Go(func() error { return dhcpServer.Serve(ctx, sockets.DHCP) })
	g.Go(func() error { return dhcpServer.ServeBINL(ctx, sockets.BINL) })
	g.Go(func() error {
		srv := tftp.Server{
			Files: s.filesByTFTP(loaders), Absent: append(optionalFiles(), dhcp.BootFromDisk), Dial: sockets.DialTFTP,
			SinglePort: s.cfg.SinglePortTFTP, Drain: httpd.DefaultShutdownGrace, Observer: s.cfg.Observer, Metrics: s.cfg.TFTPMetrics, Log: s.cfg.Log,
		}
		return srv.Serve(ctx, sockets.TFTP)
	})
	g.Go(func() error {
		h := s.handler(loaders, s.baseURL, s.autoexec)
		return httpd.Serve(ctx, sockets.HTTP, h, httpd.Options{MaxConnsPerClient: s.cfg.MaxConnsPerClient, Log: s.cfg.Log})
	})
	g.Go(func() error { return s.run6(ctx, sockets.IPv6, sockets.DialTFTP) })
	if s.cfg.Images != nil {
		g.Go(func() error { return s.cfg.Images.Run(ctx) })
	}
	return g.Wait()
}

// handler is the HTTP side, as it calls itself by one of its addresses.
func (s *Server) handler(loaders *tftp.Dir, baseURL, autoexec string) *httpd.Handler {
	return &httpd.Handler{
		BaseURL: baseURL, Directory: s.cfg.Directory, Files: s.cfg.Files, Images: s.cfg.Images,
		Discs: s.cfg.Discs, Disc: s.cfg.Disc, Bindings: s.cfg.Bindings,
		Loaders: loaders.FS(), AutoExec: autoexec, Observer: s.cfg.Observer, Metrics: s.cfg.HTTPMetrics, Log: s.cfg.Log,
	}
}
