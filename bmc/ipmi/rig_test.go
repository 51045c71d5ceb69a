// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/needs"
)

const (
	// canary is the password. No error may show it.
	canary   = bmctest.Canary
	username = "admin"
	// soon is a deadline that should expire.
	soon = 300 * time.Millisecond
)

func system() labbmc.System {
	return labbmc.System{
		UUID: "9f3b8a52-0c1d-4e6f-8a7b-112233445566", Serial: "SER123", Manufacturer: "Lab", Model: "Emulated 1",
		BMCFirmware: "1.02", BMCUUID: "00000000-1111-4222-8333-444444444444",
	}
}

func sensors() []labipmi.Sensor {
	return []labipmi.Sensor{
		{Number: 1, Type: 1, Unit: 1, Name: "CPU Temp", Value: 42},
		{Number: 2, Type: 4, Unit: 18, Name: "FAN 1", Value: 120, States: 0b000010},
	}
}

// rig is go-ipmi's simulator with a Bench.
type rig struct {
	*labipmi.BMC
	bench  *labbmc.Bench
	target bmc.Target
	serial *serial
	// pending means that a login was aborted, which only the BMC can end.
	pending bool
}

func newRig(t *testing.T, change func(*labipmi.Config)) *rig {
	t.Helper()
	bench, line := &labbmc.Bench{}, &serial{}
	cfg := labipmi.Config{
		Machine: bench, Username: username, Password: canary, System: system(), Sensors: sensors(), Console: line.open,
	}
	if change != nil {
		change(&cfg)
	}
	b, err := labipmi.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{BMC: b, bench: bench, serial: line, target: bmc.Target{Address: b.Address(), Username: username, Password: canary}}
	t.Cleanup(func() {
		defer func() { _ = b.Close() }()
		r.ended(t)
	})
	return r
}

// ended waits until no session is left. The driver ends some sessions without waiting for the BMC.
func (r *rig) ended(t *testing.T) {
	t.Helper()
	explain := func() string { return fmt.Sprintf("%d sessions left open", r.Sessions()) }
	eventually.Wait{Limit: 10 * time.Second, Interval: time.Millisecond, Explain: explain}.Until(t, "the end of all sessions",
		eventually.Holds(func() bool { return r.Sessions() == 0 || r.pending }))
}

// dial opens a session that ends with the test.
func (r *rig) dial(t *testing.T) bmc.Conn {
	t.Helper()
	conn, err := ipmi.Dial(t.Context(), r.target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.SetFaults(labipmi.Faults{})
		if err := conn.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return conn
}

// newSim starts ipmi_sim with an optional serial line.
func newSim(t *testing.T, line *serial) (*labipmi.Sim, bmc.Target) {
	t.Helper()
	needs.Program(t, labipmi.SimProgram)
	// Its configuration cannot express a quote.
	password := strings.ReplaceAll(canary, `"`, "'")
	cfg := labipmi.SimConfig{Dir: t.TempDir(), Username: username, Password: password, System: system(), Sensors: sensors()}
	if line != nil {
		cfg.ConsoleAddress = line.listen(t)
	}
	sim, err := labipmi.StartSim(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	return sim, bmc.Target{Address: sim.Address(), Username: username, Password: bmc.Password(password)}
}

// serial is a machine's serial line that echoes its input.
type serial struct {
	mu    sync.Mutex
	lines []io.Closer
}

func (s *serial) open() (io.ReadWriteCloser, error) {
	here, there := net.Pipe()
	go s.serve(there)
	return here, nil
}

func (s *serial) serve(conn net.Conn) {
	s.mu.Lock()
	s.lines = append(s.lines, conn)
	s.mu.Unlock()
	p := make([]byte, 256)
	for {
		n, err := conn.Read(p)
		if err != nil {
			return
		}
		if _, err := conn.Write(p[:n]); err != nil {
			return
		}
	}
}

// listen serves the line over TCP until the test ends.
func (s *serial) listen(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for _, c := range s.lines {
			_ = c.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}
