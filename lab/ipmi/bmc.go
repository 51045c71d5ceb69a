// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	ipmibmc "github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/clock"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/lab/bmc"
)

// DefaultMaxSessions is the number of sessions of go-ipmi's simulator and of many BMCs.
const DefaultMaxSessions = 4

// Config describes one BMC.
type Config struct {
	// Machine is the server. Required.
	Machine bmc.Machine
	// Username and Password of the only account, an administrator. Required.
	Username, Password string
	// System is the reported system; IPMI does not report its MACs, cores and memory.
	System bmc.System
	// Sensors of the BMC.
	Sensors []Sensor
	// Console opens the machine's serial console; nil: there is none.
	Console func() (io.ReadWriteCloser, error)
	// MaxSessions bounds the open sessions; 0 means DefaultMaxSessions.
	MaxSessions int
	// OnlySuite3 omits cipher suite 17, like old BMCs.
	OnlySuite3 bool
	// Packets is the BMC's socket, which the BMC closes; nil: a free port of 127.0.0.1.
	Packets net.PacketConn
}

// Command is one IPMI command of a session.
type Command struct {
	NetFn, Code byte
	Data        []byte
}

// String returns the command in hex: "00 02: 03".
func (c Command) String() string {
	return strings.TrimSpace(fmt.Sprintf("%02x %02x: % x", c.NetFn, c.Code, c.Data))
}

// BMC is a running BMC. It is safe for concurrent use.
type BMC struct {
	cfg    Config
	conn   *faultyConn
	state  *ipmibmc.BMC
	server *server.Server
	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	faults   Faults
	stale    bool // the power state that bmc.Stale reports
	lit      bool
	sessions map[uint32]bool // all that have run a command
	commands []Command
	resets   int
	sel      sel
}

// Start starts a BMC. Close stops it.
func Start(cfg Config) (*BMC, error) {
	if cfg.Machine == nil || cfg.Username == "" || cfg.Password == "" {
		return nil, errors.New("start IPMI BMC: machine, username and password are required")
	}
	cfg.MaxSessions = cmp.Or(cfg.MaxSessions, DefaultMaxSessions)
	packets := cfg.Packets
	if packets == nil {
		var err error
		if packets, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("start IPMI BMC: %w", err)
		}
	}
	b := &BMC{cfg: cfg, done: make(chan struct{}), sessions: map[uint32]bool{}}
	b.conn = &faultyConn{PacketConn: packets, bmc: b}
	if err := b.configure(); err != nil {
		_ = packets.Close()
		return nil, fmt.Errorf("start IPMI BMC: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() {
		defer close(b.done)
		_ = b.server.Serve(ctx) // ends with Close
	}()
	return b, nil
}

// configure creates the simulator with its users, storage and commands.
func (b *BMC) configure() error {
	hardware, err := newHardware(b)
	if err != nil {
		return err
	}
	guid, err := guidBytes(b.cfg.System.BMCUUID)
	if err != nil {
		return err
	}
	info := ipmibmc.DeviceInfo{DeviceID: 32, DeviceRevision: 1, IPMIVersion: 0x20, AdditionalDeviceSupport: 0x09}
	if v := b.cfg.System.BMCFirmware; v != "" {
		if _, err := fmt.Sscanf(v, "%d.%x", &info.FirmwareMajor, &info.FirmwareMinor); err != nil {
			return fmt.Errorf("BMC firmware %q: want major.minor: %w", v, err)
		}
	}
	b.state = ipmibmc.New(info, guid, hardware)
	if b.cfg.OnlySuite3 {
		b.state.SetCipherSuites([]types.CipherSuiteID{types.CipherSuiteID3})
	}
	b.state.Sessions = ipmibmc.NewSessionStoreWithOptions(clock.Real, ipmibmc.WithMaxSessions(b.cfg.MaxSessions))
	b.state.Sessions.SetOnRemove(b.state.SOL.DeactivateBySession)
	user, err := b.state.Users.Add(2, b.cfg.Username)
	if err != nil {
		return err
	}
	user.SetPassword([]byte(b.cfg.Password))
	user.Enabled = true
	user.ChannelAccess[1] = ipmibmc.UserChannelAccess{MaxPrivilege: ipmibmc.PrivilegeLevelAdministrator, Enabled: true}
	registry := handlers.NewRegistry()
	registry.Use(b.watch)
	handlers.RegisterAllHandlers(registry)
	if err := b.register(registry); err != nil {
		return err
	}
	b.server = server.NewServer(b.state, b.conn, server.WithHandlerRegistry(registry), server.WithV15Disabled())
	return nil
}

// Address returns ipmi://host:port.
func (b *BMC) Address() string { return "ipmi://" + b.conn.LocalAddr().String() }

// Close stops the BMC.
func (b *BMC) Close() error {
	b.cancel()
	err := b.server.Close()
	<-b.done
	return err
}

// Sessions counts the open sessions, including those whose login is in progress.
func (b *BMC) Sessions() int { return b.state.Sessions.Count() }

// Commands returns the commands of all sessions since the start, oldest first.
func (b *BMC) Commands() []Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Command(nil), b.commands...)
}

// Lit reports whether the indicator is on.
func (b *BMC) Lit() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lit
}

// Resets counts how often the BMC was restarted.
func (b *BMC) Resets() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.resets
}

// ForgetSessions drops every session without notice, like a restart.
func (b *BMC) ForgetSessions() {
	b.mu.Lock()
	ids := slices.Collect(maps.Keys(b.sessions))
	b.mu.Unlock()
	for _, id := range ids {
		_ = b.state.Sessions.Close(id) // most have ended already
	}
}

// guidBytes returns a UUID in the order of SMBIOS: the first three fields little-endian.
func guidBytes(uuid string) (out [16]byte, _ error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || (len(raw) != 16 && len(raw) != 0) {
		return out, fmt.Errorf("UUID %q is not valid", uuid)
	}
	copy(out[:], raw)
	for _, field := range [][]byte{out[0:4], out[4:6], out[6:8]} {
		slices.Reverse(field)
	}
	return out, nil
}

func (b *BMC) record(netFn, code byte, data []byte, session *ipmibmc.Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commands = append(b.commands, Command{NetFn: netFn, Code: code, Data: bytes.Clone(data)})
	if session != nil {
		b.sessions[session.BMCID] = true
	}
}
