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
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/pxe/media"
	"github.com/ingot-metal/ingot/pxe/script"
	"github.com/ingot-metal/ingot/pxe/tftp"
)

const (
	DHCPPort        = 67
	BINLPort        = 4011
	TFTPPort        = 69
	DefaultHTTPPort = 8880
)

// Config configures a boot server. Fields are required unless their comment says otherwise.
type Config struct {
	// Address is the boot server's IPv4 address for hosts. Every answer contains it, so
	// each replica needs its own.
	Address netip.Addr
	// IPv6 enables IPv6 if it has an address.
	IPv6 ConfigIPv6
	// HTTPPort is the port of Sockets.HTTP; 0 means DefaultHTTPPort.
	HTTPPort uint16
	// LoaderDir contains the iPXE binaries that Loaders names.
	LoaderDir string
	// Loaders are the loader files for each firmware; zero means dhcp.DefaultLoaders. LoaderDir
	// must contain the small loaders for BIOS and x64 UEFI. The other loaders are optional.
	Loaders dhcp.Loaders
	// Signed are the loaders for firmware with Secure Boot; zero means none.
	Signed    Signed
	Directory pxe.Directory
	Files     *pxe.Files
	// Bindings are filled by DHCP and used by HTTP to check script requests on networks of
	// mode Proxy. Nil means that the server makes its own.
	Bindings *pxe.AddressBindings
	// MediaDirectory and Disc serve CD images of hosts. Both may be nil.
	MediaDirectory pxe.MediaDirectory
	MediaTemplate  *media.Template
	// Images is the cache of OS images, which the server runs; nil means no images.
	Images *httpd.ImageCache
	// SinglePortTFTP sends all TFTP packets from port 69, for networks whose firewalls
	// block other ports.
	SinglePortTFTP bool
	// MaxConnsPerClient limits the HTTP connections per client address; 0 means
	// httpd.DefaultMaxConnsPerClient.
	MaxConnsPerClient int
	// Observer, the metrics and Log may be nil.
	Observer    pxe.Observer
	DHCPMetrics *dhcp.Metrics
	TFTPMetrics *tftp.Metrics
	HTTPMetrics *httpd.Metrics
	Log         *slog.Logger
}

// Sockets are the sockets of the boot server. Run closes them.
type Sockets struct {
	// DHCP is bound to port 67 and may send to 255.255.255.255. A *dhcp.Socket serves
	// several interfaces.
	DHCP net.PacketConn
	// BINL is bound to port 4011, where UEFI firmware requests its boot file.
	BINL net.PacketConn
	TFTP net.PacketConn
	// DialTFTP opens the socket of one TFTP transfer, for IPv4 and IPv6. Nil means a
	// kernel socket with the address of TFTP.
	DialTFTP func(client netip.AddrPort) (net.Conn, error)
	HTTP     net.Listener
	// IPv6 is required if Config.IPv6 has an address.
	IPv6 SocketsIPv6
}

func (s Sockets) Close() error {
	return errors.Join(closeOpen(s.DHCP, s.BINL, s.TFTP, s.HTTP), s.IPv6.Close())
}

func closeOpen(sockets ...io.Closer) error {
	var errs []error
	for _, socket := range sockets {
		if socket != nil {
			errs = append(errs, socket.Close())
		}
	}
	return errors.Join(errs...)
}

// Server is a boot server that is configured but has no sockets yet.
type Server struct {
	cfg     Config
	baseURL string
	// autoexec is the script that iPXE binaries request from their server.
	autoexec string
	// memory holds the TFTP files that are not in LoaderDir, by name.
	memory map[string][]byte
}

// New checks a configuration. It fails if a required loader is missing.
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
	if (cfg.MediaDirectory == nil) != (cfg.MediaTemplate == nil) {
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
	s.memory = map[string][]byte{"autoexec.ipxe": []byte(s.autoexec)}
	if err := cfg.Signed.addTo(s.memory, s.baseURL); err != nil {
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

// present returns the loaders that can be served. Debian's ipxe.efi cannot: it is a link to
// another directory.
func present(files tftp.Files, loaders dhcp.Loaders) (dhcp.Loaders, error) {
	open := func(name string) error {
		f, err := files.Open(netip.Addr{}, name)
		if err == nil {
			_ = f.Close()
		}
		return err
	}
	for _, name := range []string{loaders.Small.BIOS, loaders.Small.UEFI} {
		if err := open(name); err != nil {
			return loaders, fmt.Errorf("boot loader %s is missing (Debian: package ipxe): %w", name, err)
		}
	}
	return loaders.Keep(func(name string) bool { return open(name) == nil }), nil
}

func (s *Server) BaseURL() string { return s.baseURL }

func (s *Server) openLoaders() (*tftp.Dir, error) {
	d, err := tftp.OpenDir(s.cfg.LoaderDir, s.memory)
	if err != nil {
		return nil, fmt.Errorf("boot server: %w", err)
	}
	return d, nil
}

// Run serves until ctx ends (nil error) or a server fails. One failure stops all servers.
// Run may be called once for each set of sockets.
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
	files := tftp.Server{Files: s.filesByTFTP(loaders), Absent: append(optionalFiles(), dhcp.BootFromDisk), Dial: sockets.DialTFTP}
	s.serveFiles(ctx, g, files, sockets.TFTP, s.handler(loaders, s.baseURL, s.autoexec), sockets.HTTP)
	g.Go(func() error { return s.run6(ctx, sockets.IPv6, sockets.DialTFTP) })
	if s.cfg.Images != nil {
		g.Go(func() error { return s.cfg.Images.Run(ctx) })
	}
	return g.Wait()
}

// serveFiles starts the TFTP and HTTP servers of one IP family.
func (s *Server) serveFiles(ctx context.Context, g *errgroup.Group, t tftp.Server, packets net.PacketConn, h *httpd.Handler, l net.Listener) {
	t.SinglePort, t.Drain = s.cfg.SinglePortTFTP, httpd.DefaultShutdownGrace
	t.Observer, t.Metrics, t.Log = s.cfg.Observer, s.cfg.TFTPMetrics, s.cfg.Log
	g.Go(func() error { return t.Serve(ctx, packets) })
	g.Go(func() error {
		return httpd.Serve(ctx, l, h, httpd.Options{MaxConnsPerClient: s.cfg.MaxConnsPerClient, Log: s.cfg.Log})
	})
}

// handler returns the HTTP handler that uses baseURL in its answers.
func (s *Server) handler(loaders *tftp.Dir, baseURL, autoexec string) *httpd.Handler {
	return &httpd.Handler{
		BaseURL: baseURL, Directory: s.cfg.Directory, Files: s.cfg.Files, Images: s.cfg.Images,
		MediaDirectory: s.cfg.MediaDirectory, MediaTemplate: s.cfg.MediaTemplate, Bindings: s.cfg.Bindings,
		Loaders: loaders.FS(), AutoExec: autoexec, Observer: s.cfg.Observer, Metrics: s.cfg.HTTPMetrics, Log: s.cfg.Log,
	}
}
