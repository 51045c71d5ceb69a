// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacenter

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/ipmi"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/lab/server"
)

// Kind is the kind of a server.
type Kind string

const (
	// Virtual servers run real firmware, the real agent image and a real operating system in QEMU.
	Virtual Kind = "Virtual"
	// Simulated servers run the real agent code in this process, send real packets
	// and have files as disks.
	Simulated Kind = "Simulated"
)

// Username is the account of every BMC.
const Username = "admin"

// ServerSpec describes one server.
type ServerSpec struct {
	// Name is also the server's serial number.
	Name string
	Kind Kind
	// Firmware, NIC and Disk configure a virtual server.
	Firmware qemu.Firmware
	NIC      qemu.NICModel
	Disk     qemu.DiskModel
	// DiskBytes is the size of the only, sparse disk; 0 means 10 GiB, negative: no disk.
	DiskBytes int64
	// MemoryMiB and CPUs configure a virtual server; 0 means 1024 and 1.
	MemoryMiB, CPUs int
	// Media gives a virtual UEFI server a CD drive, and its BMC this address in the servers'
	// network to fetch inserted images. The Personality must have virtual media. The zero value
	// means no drive.
	Media netip.Prefix
	// NoPXE leaves a virtual UEFI server only HTTP boot, with the URL from DHCP: OVMF does not
	// receive the BMC's HttpBootUri.
	NoPXE bool
	// Simulate changes the configuration of a simulated server; may be nil.
	Simulate func(*server.Config)
	// Protocol of its BMC.
	Protocol Protocol
	// Personality of a Redfish BMC; the zero value is a bare one with Quirks.
	Personality bmc.Personality
	Quirks      bmc.Quirks
	// MaxSessions bounds the sessions of the BMC; 0 means the default of the personality,
	// bmc.DefaultMaxSessions, or ipmi.DefaultMaxSessions.
	MaxSessions int
}

// Config describes a datacenter.
type Config struct {
	// Dir holds disks, logs and sockets. Its path must be short because of Unix sockets.
	Dir string
	// Password of every BMC.
	Password string
	Servers  []ServerSpec
	// Address is where all BMCs listen, each on its own port; the zero value means 127.0.0.1.
	Address netip.Addr
	// Accel runs virtual servers.
	Accel qemu.Accel
	// Capture receives every frame on the network as a pcap file; may be nil.
	Capture io.Writer
}

// Server is one server with its BMC.
type Server struct {
	Spec ServerSpec
	// BMC is nil for a BMC with only IPMI, and IPMI for a BMC without it.
	BMC  *bmc.BMC
	IPMI *ipmi.BMC
	MAC  net.HardwareAddr
	// DiskPath is empty for a server without a disk.
	DiskPath string
	// Simulated is nil for a virtual server, VM for a simulated one.
	Simulated *server.Server
	VM        *qemu.VM

	machine bmc.Machine
	drive   *drive
	// closers are called in reverse order.
	closers []func() error
}

// Powered reports whether the server is on.
func (s *Server) Powered() bool { return s.machine.Powered() }

// Datacenter is a running datacenter.
type Datacenter struct {
	Switch    *network.Switch
	Authority *bmc.Authority
	Servers   []*Server
	dir       string
}

// uplinkSocket is the file name of Uplink.
const uplinkSocket = "uplink.sock"

// defaultDisk is the size of a disk, in bytes.
const defaultDisk = 10 << 30

// Start creates the datacenter; all servers are off.
func Start(cfg Config) (*Datacenter, error) {
	if !cfg.Address.IsValid() {
		cfg.Address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	authority, err := bmc.NewAuthority(cfg.Address.String(), "localhost")
	if err != nil {
		return nil, err
	}
	dc := &Datacenter{Switch: network.NewSwitch(), Authority: authority, dir: cfg.Dir}
	if err := dc.start(cfg); err != nil {
		return nil, errors.Join(err, dc.Close())
	}
	return dc, nil
}

func (dc *Datacenter) start(cfg Config) error {
	if err := os.MkdirAll(dc.dir, 0o700); err != nil {
		return fmt.Errorf("datacenter: %w", err)
	}
	if cfg.Capture != nil {
		if err := dc.Switch.Capture(cfg.Capture); err != nil {
			return err
		}
	}
	// iPXE and networkd wait for a router's answer (field notes).
	if err := dc.Switch.AnswerRouterSolicitations(); err != nil {
		return err
	}
	if err := dc.Switch.ListenUnix("uplink", dc.Uplink()); err != nil {
		return err
	}
	for i, spec := range cfg.Servers {
		s, err := dc.newServer(cfg, spec, i)
		if err != nil {
			return fmt.Errorf("server %s: %w", spec.Name, err)
		}
		dc.Servers = append(dc.Servers, s)
	}
	return nil
}

// Uplink returns the path of the Unix socket through which another process joins the network
// (network.Switch.DialUnix).
func (dc *Datacenter) Uplink() string { return filepath.Join(dc.dir, uplinkSocket) }

// Server returns the server with a name, or nil.
func (dc *Datacenter) Server(name string) *Server {
	if i := slices.IndexFunc(dc.Servers, func(s *Server) bool { return s.Spec.Name == name }); i >= 0 {
		return dc.Servers[i]
	}
	return nil
}

// Close powers everything off.
func (dc *Datacenter) Close() error {
	var errs []error
	for _, s := range dc.Servers {
		errs = append(errs, s.close())
	}
	return errors.Join(append(errs, dc.Switch.Close())...)
}

func (s *Server) close() error {
	var errs []error
	for _, c := range slices.Backward(s.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// newServer creates one server with its disk and its BMC.
func (dc *Datacenter) newServer(cfg Config, spec ServerSpec, index int) (*Server, error) {
	s := &Server{
		Spec: spec,
		// 52:54:00 is QEMU's range of locally administered addresses.
		MAC: net.HardwareAddr{0x52, 0x54, 0x00, 0x1a, byte(index >> 8), byte(index)},
	}
	dir := filepath.Join(dc.dir, spec.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if spec.DiskBytes >= 0 {
		s.DiskPath = filepath.Join(dir, "disk.raw")
		if err := sparseFile(s.DiskPath, cmp.Or(spec.DiskBytes, defaultDisk)); err != nil {
			return nil, err
		}
	}
	id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(spec.Name)).String()
	build := s.virtual
	if spec.Kind == Simulated {
		build = s.simulated
	}
	if err := build(dc, cfg, dir, id); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.startBMC(dc, cfg, id); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func sparseFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}
