// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

const mib = 1 << 20

// Secrets that no log line, error or report may show.
const (
	userDataCanary   = "user-data-canary-7f3a"
	vendorDataCanary = "vendor-data-canary-91bc"
)

// server is a simulated machine with one file for each disk.
type server struct {
	t      *testing.T
	dir    string
	disks  []agentapi.Disk
	mu     sync.Mutex
	seeded map[string]agentapi.Bootstrap
	lines  []string
	// markerAtSeed is the disk's marker when the seed was written.
	markerAtSeed *agentapi.Marker
	seedErr      error
	// assembles is the result of Assembles, and looked are the disks that were checked.
	assembles error
	looked    []string
	onSeed    func()
	// onWrite is called before each write to a disk, with the context of the work.
	onWrite func(context.Context)
	clock   time.Time
	// failing is the serial number of a disk that refuses writes behind its first MiB.
	failing string
	// wrap replaces opened devices, and onList changes the n-th list. Nil: no change.
	wrap   func(agentapi.Disk, block.Device) block.Device
	onList func(n int, disks []agentapi.Disk)
	lists  int
	// markersRead counts List calls.
	markersRead int
	// unread: List returns no markers.
	unread bool
}

func newServer(t *testing.T, disks ...agentapi.Disk) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), seeded: map[string]agentapi.Bootstrap{}}
	for i, d := range disks {
		if d.Name == "" {
			d.Name = fmt.Sprintf("disk%d", i)
		}
		if d.SizeBytes == 0 {
			d.SizeBytes = 8 * mib
		}
		old := bytes.Repeat([]byte{0xa5}, int(d.SizeBytes))
		if d.Marker != nil {
			b, err := marker.Format(*d.Marker)
			if err != nil {
				t.Fatal(err)
			}
			copy(old[agentapi.MarkerOffset:], b)
		}
		if err := os.WriteFile(s.path(d), old, 0o600); err != nil {
			t.Fatal(err)
		}
		s.disks = append(s.disks, d)
	}
	return s
}

func (s *server) path(d agentapi.Disk) string { return filepath.Join(s.dir, filepath.Base(d.Name)) }

// List implements agent.Disks.
func (s *server) List(ctx context.Context) ([]agentapi.Disk, error) {
	s.markersRead++
	out, err := s.Names(ctx)
	for i := range out {
		if !s.unread {
			out[i].Marker = s.marker(i)
		}
	}
	return out, err
}

// Names implements agent.Disks.
func (s *server) Names(context.Context) ([]agentapi.Disk, error) {
	out := slices.Clone(s.disks)
	for i := range out {
		out[i].Marker = nil
	}
	if s.lists++; s.onList != nil {
		s.onList(s.lists, out)
	}
	return out, nil
}

func (s *server) Open(ctx context.Context, d agentapi.Disk) (block.Device, error) {
	dev, err := block.OpenFile(s.path(d))
	if s.wrap != nil && err == nil {
		dev = s.wrap(d, dev)
	}
	commands, ok := dev.(erase.Commands)
	if !ok {
		commands = erase.None{}
	}
	return observed{Commands: commands, Device: dev, fails: s.failing != "" && d.Serial == s.failing, before: func() {
		if s.onWrite != nil {
			s.onWrite(ctx)
		}
	}}, err
}

// sectored is a disk with a sector size.
type sectored struct {
	block.Device
	size int
}

func (s sectored) SectorSize() int { return s.size }

// observed calls before for each write, and skips the sync of the real disk.
type observed struct {
	block.Device
	erase.Commands
	before func()
	fails  bool
}

func (observed) Sync() error { return nil }

func (w observed) SectorSize() int { return block.SectorSize(w.Device) }

func (w observed) WriteAt(b []byte, off int64) (int, error) {
	w.before()
	if w.fails && off >= mib {
		return 0, errors.New("medium error")
	}
	return w.Device.WriteAt(b, off)
}

func (w observed) Zero(off, n int64) error {
	if n > 0 {
		w.before()
	}
	return w.Device.Zero(off, n)
}

// Seed implements agent.Seeder.
func (s *server) Seed(_ context.Context, d agentapi.Disk, seed agentapi.Bootstrap) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.Open(s.path(d))
	if err != nil {
		return err
	}
	defer f.Close()
	s.markerAtSeed, err = marker.Read(f)
	if err != nil {
		return err
	}
	s.seeded[d.Name] = seed
	if s.onSeed != nil {
		s.onSeed()
	}
	return s.seedErr
}

func (s *server) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *server) content(i int) []byte {
	s.t.Helper()
	b, err := os.ReadFile(s.path(s.disks[i]))
	if err != nil {
		s.t.Fatal(err)
	}
	return b
}

func (s *server) marker(i int) *agentapi.Marker {
	s.t.Helper()
	f, err := os.Open(s.path(s.disks[i]))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	m, err := marker.Read(f)
	if err != nil {
		return nil
	}
	return m
}

// untouched reports whether a disk is unchanged, except for the marker.
func (s *server) untouched(i int) bool {
	b := s.content(i)
	copy(b[agentapi.MarkerOffset:], bytes.Repeat([]byte{0xa5}, agentapi.MarkerSize))
	return bytes.Equal(b, bytes.Repeat([]byte{0xa5}, len(b)))
}

// config returns the configuration of an agent on this server.
func (s *server) config(m *agenttest.Manager, addr string) agent.Config {
	s.t.Helper()
	pins, err := agent.ParsePins(m.Pin())
	if err != nil {
		s.t.Fatal(err)
	}
	identity, err := agent.NewIdentity()
	if err != nil {
		s.t.Fatal(err)
	}
	return agent.Config{
		Servers: []string{addr}, Pins: pins, Token: m.Token, Identity: identity, Version: "test",
		Probe: func(context.Context) (agentapi.Hardware, error) {
			if s.lists == 0 {
				s.t.Error("hardware was read before the disks were listed")
			}
			return agentapi.Hardware{Serial: "SN1", Architecture: "amd64"}, nil
		},
		Disks: s, Seeder: s, Assembles: s.assemblesHere, Log: s.log,
		SetTime: func(now time.Time) error { s.clock = now; return nil },
		Sleep:   func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) },
	}
}

func (s *server) run(m *agenttest.Manager) (agentapi.Action, error) {
	s.t.Helper()
	return agent.Run(s.t.Context(), s.config(m, m.Start(s.t)))
}

// noSecrets searches logs, errors and reports for canaries.
func (s *server) noSecrets(m *agenttest.Manager, err error) {
	s.t.Helper()
	seen := strings.Join(s.lines, "\n") + fmt.Sprintf("\n%v\n%+v", err, m.Reports())
	for _, secret := range []string{userDataCanary, vendorDataCanary, m.Token.Reveal()} {
		if strings.Contains(seen, secret) {
			s.t.Errorf("%s shows in:\n%s", secret, seen)
		}
	}
}

// installOrder returns a manager that orders the install of a random image, and the image.
func installOrder(t *testing.T) (*agenttest.Manager, *agenttest.Images) {
	t.Helper()
	raw := make([]byte, 5*mib)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(raw)
	clear(raw[agentapi.MarkerOffset : agentapi.MarkerOffset+agentapi.MarkerSize])
	images := &agenttest.Images{Content: raw}
	m := agenttest.NewManager()
	m.Action = agentapi.BootDisk
	m.Bootstrap = agentapi.Bootstrap{
		UserData: "#cloud-config\n# " + userDataCanary, MetaData: "instance-id: i1-1\n", VendorData: "#cloud-config\n# " + vendorDataCanary,
	}
	m.Order = agentapi.Order{
		Kind: agentapi.Install, ID: "o1", InstanceID: "i1", Attempt: 2,
		Install: &agentapi.InstallOrder{
			ImageURL: images.Start(t), Checksum: images.Checksum(),
			RootDisk: agentapi.DiskRef{Serial: "A"}, ReleasedInstances: []string{"released"},
		},
	}
	return m, images
}

func refusal(reason agentapi.Reason) *agenttest.Fault {
	return &agenttest.Fault{Refuse: &agentapi.Error{Reason: reason, Message: "because"}}
}

// hasReason reports whether err is a refusal with the reason.
func hasReason(err error, reason agentapi.Reason) bool {
	e, ok := errors.AsType[*agentapi.Error](err)
	return ok && e.Reason == reason
}
