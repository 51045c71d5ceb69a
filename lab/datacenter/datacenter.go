// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacenter

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/ipmi"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/lab/server"
)

// Kind of a server.
type Kind string

// The kinds.
const (
	// Virtual servers run real firmware, the real agent image and a real operating
	// system in QEMU.
	Virtual Kind = "Virtual"
	// Simulated servers run the real agent code in this process, send real packets
	// and have files as disks.
	Simulated Kind = "Simulated"
)

// Credentials of every BMC.
const Username = "admin"

// ServerSpec describes one server.
type ServerSpec struct {
	// Name is also the server's serial number.
	Name string
	Kind Kind
	// Firmware, NIC and Disk are a virtual server's.
	Firmware qemu.Firmware
	NIC      qemu.NICModel
	Disk     qemu.DiskModel
	// DiskBytes is the size of the only disk; 0 means 10 GiB, sparse; negative: the
	// server has no disk.
	DiskBytes int64
	// MemoryMiB and CPUs are a virtual server's; 0 means 1024 and 1.
	MemoryMiB, CPUs int
	// Media gives a virtual server with UEFI a CD drive, and its BMC this address in the
	// servers' network to fetch from what is inserted; the Personality must have virtual
	// media. The zero value: no drive.
	Media netip.Prefix
	// NoPXE leaves a virtual server with UEFI only HTTP boot to boot from the network by.
	// It asks DHCP where from: OVMF is not told of its BMC's HttpBootUri.
	NoPXE bool
	// Simulate changes what a simulated server is; may be nil.
	Simulate func(*server.Config)
	// Protocol of its BMC.
	Protocol Protocol
	// Personality of its BMC, where that speaks Redfish; the zero value is a bare
	// one, with Quirks.
	Personality bmc.Personality
	Quirks      bmc.Quirks
	// MaxSessions that the BMC takes; 0 means the personality's,
	// bmc.DefaultMaxSessions, or ipmi.DefaultMaxSessions.
	MaxSessions int
}

// Config describes a data centre.
type Config struct {
	// Dir holds disks, logs and sockets; its path must be short (unix sockets).
	Dir string
	// Password of every BMC.
	Password string
	Servers  []ServerSpec
	// Address is where all BMCs listen, each on a port of its own; 127.0.0.1 if
	// invalid.
	Address netip.Addr
	// Accel runs virtual servers.
	Accel qemu.Accel
	// Capture gets every frame on the network as a pcap file; may be nil.
	Capture io.Writer
}

// Server is one server with its BMC.
type Server struct {
	Spec ServerSpec
	// BMC is nil where it speaks IPMI alone, and IPMI where it does not speak it.
	BMC  *bmc.BMC
	IPMI *ipmi.BMC
	MAC  net.HardwareAddr
	// DiskPath is empty for a server without a disk.
	DiskPath string
	// Simulated is nil for a virtual server, VM for a simulated one.
	Simulated *server.Server
	VM        *qemu.VM

	machine bmc.Machine
	stack   *network.Stack
	drive   *drive
	console *os.File
}

// Powered says whether the server is on.
func (s *Server) Powered() bool { return s.machine.Powered() }

// DataCentre is a running data centre.
type DataCentre struct {
	Switch    *network.Switch
	Authority *bmc.Authority
	Servers   []*Server
	dir       string
}

// uplinkSocket is where a process joins the network (Uplink).
const uplinkSocket = "uplink.sock"

// defaultDisk is the size of a disk, in bytes.
const defaultDisk = 10 << 30

// Start builds the data centre; all servers are off.
func Start(cfg Config) (*DataCentre, error) {
	if !cfg.Address.IsValid() {
		cfg.Address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	authority, err := bmc.NewAuthority(cfg.Address.String(), "localhost")
	if err != nil {
		return nil, err
	}
	dc := &DataCentre{Switch: network.NewSwitch(), Authority: authority, dir: cfg.Dir}
	if err := dc.start(cfg); err != nil {
		return nil, errors.Join(err, dc.Close())
	}
	return dc, nil
}

func (dc *DataCentre) start(cfg Config) error {
	if err := os.MkdirAll(dc.dir, 0o700); err != nil {
		return fmt.Errorf("data centre: %w", err)
	}
	if cfg.Capture != nil {
		if err := dc.Switch.Capture(cfg.Capture); err != nil {
			return err
		}
	}
	// Without a router's answer iPXE and networkd wait for one (field notes).
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

// Uplink is the path of the unix socket through which another process joins the
// network (network.Switch.DialUnix).
func (dc *DataCentre) Uplink() string { return filepath.Join(dc.dir, uplinkSocket) }

// Server returns the server of that name, or nil.
func (dc *DataCentre) Server(name string) *Server {
	for _, s := range dc.Servers {
		if s.Spec.Name == name {
			return s
		}
	}
	return nil
}

// Close switches everything off.
func (dc *DataCentre) Close() error {
	var errs []error
	for _, s := range dc.Servers {
		errs = append(errs, s.close())
	}
	return errors.Join(append(errs, dc.Switch.Close())...)
}

func (s *Server) close() error {
	var errs []error
	if s.BMC != nil {
		errs = append(errs, s.BMC.Close())
	}
	if s.IPMI != nil {
		errs = append(errs, s.IPMI.Close())
	}
	if s.VM != nil {
		errs = append(errs, s.VM.Close())
	}
	if s.Simulated != nil {
		errs = append(errs, s.Simulated.Close())
	}
	if s.stack != nil {
		errs = append(errs, s.stack.Close())
	}
	if s.drive != nil {
		errs = append(errs, s.drive.close())
	}
	if s.console != nil {
		errs = append(errs, s.console.Close())
	}
	return errors.Join(errs...)
}

// newServer builds one server with its disk and its BMC.
func (dc *DataCentre) newServer(cfg Config, spec ServerSpec, index int) (*Server, error) {
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
		size := spec.DiskBytes
		if size == 0 {
			size = defaultDisk
		}
		if err := sparseFile(s.DiskPath, size); err != nil {
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
	if err := s.front(dc, cfg, id); err != nil {
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
