// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	ipmibmc "github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/clock"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/lab/bmc"
)

// DefaultMaxSessions is what go-ipmi's simulator, and many BMCs, have room for.
const DefaultMaxSessions = 4

// Config describes one BMC.
type Config struct {
	// Machine is the server. Required.
	Machine bmc.Machine
	// Username and Password of the only account, an administrator. Required.
	Username, Password string
	// System is what the BMC tells; IPMI has no place for its MACs, cores and memory.
	System bmc.System
	// Sensors that the BMC reads.
	Sensors []Sensor
	// Console opens the machine's serial console; nil: there is none.
	Console func() (io.ReadWriteCloser, error)
	// MaxSessions that may be open; 0 means DefaultMaxSessions.
	MaxSessions int
	// OnlySuite3 leaves out cipher suite 17, as old BMCs do.
	OnlySuite3 bool
	// Packets is the BMC's socket, which it closes; nil: one on a free port of
	// 127.0.0.1.
	Packets net.PacketConn
}

// Command is one IPMI command of a session.
type Command struct {
	NetFn, Code byte
	Data        []byte
}

// String is the command in hex: "00 02: 03".
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
	stale    bool // the power state that Stale tells
	lit      bool
	sessions map[uint32]bool // all that ever ran a command
	commands []Command
	resets   int
	sel      sel
}

// Start starts a BMC. Close stops it.
func Start(cfg Config) (*BMC, error) {
	if cfg.Machine == nil || cfg.Username == "" || cfg.Password == "" {
		return nil, errors.New("start IPMI BMC: machine, username and password are required")
	}
	if cfg.MaxSessions == 0 {
		cfg.MaxSessions = DefaultMaxSessions
	}
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

// configure makes the simulator: its users, storage and commands.
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

// Address is ipmi://host:port.
func (b *BMC) Address() string { return "ipmi://" + b.conn.LocalAddr().String() }

// Close stops the BMC.
func (b *BMC) Close() error {
	b.cancel()
	err := b.server.Close()
	<-b.done
	return err
}

// Sessions counts the open sessions, those whose login is under way among them.
func (b *BMC) Sessions() int { return b.state.Sessions.Count() }

// Commands lists the commands of all sessions since the start, oldest first.
func (b *BMC) Commands() []Command {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Command(nil), b.commands...)
}

// Lit reports whether the indicator is lit.
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

// ForgetSessions ends every session without a word, as a restart does.
func (b *BMC) ForgetSessions() {
	b.mu.Lock()
	ids := make([]uint32, 0, len(b.sessions))
	for id := range b.sessions {
		ids = append(ids, id)
	}
	b.mu.Unlock()
	for _, id := range ids {
		_ = b.state.Sessions.Close(id) // most have ended
	}
}

// guidBytes writes a UUID in the order of SMBIOS: the first three fields
// little-endian.
func guidBytes(uuid string) (out [16]byte, _ error) {
	raw, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil || (len(raw) != 16 && len(raw) != 0) {
		return out, fmt.Errorf("UUID %q is none", uuid)
	}
	copy(out[:], raw)
	for _, field := range [][]byte{out[0:4], out[4:6], out[6:8]} {
		for i, j := 0, len(field)-1; i < j; i, j = i+1, j-1 {
			field[i], field[j] = field[j], field[i]
		}
	}
	return out, nil
}

// record logs a command.
func (b *BMC) record(netFn, code byte, data []byte, session *ipmibmc.Session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commands = append(b.commands, Command{NetFn: netFn, Code: code, Data: bytes.Clone(data)})
	if session != nil {
		b.sessions[session.BMCID] = true
	}
}
