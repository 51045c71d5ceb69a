// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/trust"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/endpoint"
	"github.com/ingot-metal/ingot/lab/bmc/fault"
	"github.com/ingot-metal/ingot/lab/bmc/update"
	"github.com/ingot-metal/ingot/lab/vendorbmc"
	"github.com/ingot-metal/ingot/test/eventually"
)

// plain are the drivers that do not use Redfish.
var plain = []string{bmctest.DriverRPC, bmctest.DriverAMT, bmctest.DriverASRockRack}

// redfishDrivers are the drivers that use Redfish, each with one of its BMCs.
var redfishDrivers = []struct {
	driver string
	p      bmctest.Personality
}{
	{bmctest.DriverDell, bmctest.IDRAC9}, {bmctest.DriverSupermicro, bmctest.SupermicroX11}, {bmctest.DriverSupermicro, bmctest.SupermicroX12},
	{bmctest.DriverOpenBMC, bmctest.OpenBMC},
}

func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), shortWait)
	t.Cleanup(cancel)
	return ctx
}

// TestFaults checks the sentinel for each fault of a request, and that the connection works again
// afterwards.
func TestFaults(t *testing.T) {
	state := func(ctx context.Context, c bmc.Conn) error { _, err := c.PowerState(ctx); return err }
	on := func(ctx context.Context, c bmc.Conn) error { return c.SetPower(ctx, bmc.ActionOn) }
	for _, tc := range []struct {
		name   string
		faults fault.Faults
		call   func(context.Context, bmc.Conn) error
		want   error
	}{
		{"read hangs", fault.Faults{Hang: true}, state, bmc.ErrTimeout},
		{"write hangs", fault.Faults{Hang: true}, on, bmc.ErrUnknownOutcome},
		{"write's answer is lost", fault.Faults{LoseReply: true}, on, bmc.ErrUnknownOutcome},
		{"read is interrupted", fault.Faults{Drop: true}, state, bmc.ErrUnreachable},
		{"write gets 500", fault.Faults{Status: 500}, on, bmc.ErrUnknownOutcome},
		{"busy", fault.Faults{Status: 503}, state, bmc.ErrBusy},
		{"rate", fault.Faults{Status: 429}, on, bmc.ErrRateLimited},
		{"forbidden", fault.Faults{Status: 403}, on, bmc.ErrUnauthorized},
		{"missing", fault.Faults{Status: 404}, state, bmc.ErrNotSupported},
		{"nonsense", fault.Faults{Body: "<html>hello</html>"}, state, bmc.ErrProtocol},
	} {
		for _, name := range plain {
			t.Run(tc.name+" "+name, func(t *testing.T) {
				r := newPlain(t, name, nil)
				conn := r.dial(t)
				r.SetFaults(tc.faults)
				ctx := t.Context()
				if tc.faults.Hang {
					ctx = shortly(t)
				}
				if err := tc.call(ctx, conn); !errors.Is(err, tc.want) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
				r.SetFaults()
				if err := state(t.Context(), conn); err != nil {
					t.Errorf("after it: %v", err)
				}
			})
		}
	}
}

// TestDialUsesOneDriver checks that dialing makes only the requests of one driver (bmclib's Open
// waits for all drivers that might fit).
func TestDialUsesOneDriver(t *testing.T) {
	for name, want := range map[string]int{
		bmctest.DriverRPC:        1, // ping
		bmctest.DriverAMT:        1, // the challenge
		bmctest.DriverASRockRack: 2, // login, and the board's model
	} {
		t.Run(name, func(t *testing.T) {
			r := newPlain(t, name, nil)
			r.dial(t)
			if n := r.Requests(); n != want {
				t.Errorf("%d requests, want %d", n, want)
			}
		})
	}
}

// resetAMT is the number of the reset request: two requests before it read the power state.
const resetAMT = 3

// TestLostResetIsNotRepeated checks that a reset without an answer happens once (bmclib would try
// its next driver).
func TestLostResetIsNotRepeated(t *testing.T) {
	for _, name := range plain {
		t.Run(name, func(t *testing.T) {
			r := newPlain(t, name, nil)
			conn := r.dial(t)
			if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
				t.Fatal(err)
			}
			r.SetFaults(fault.Faults{LoseReply: true})
			if name == bmctest.DriverAMT { // it reads before it writes
				r.SetFaults(fault.Faults{LoseReply: true, Every: resetAMT})
			}
			if err := conn.SetPower(t.Context(), bmc.ActionForceRestart); !errors.Is(err, bmc.ErrUnknownOutcome) {
				t.Errorf("error %v, want ErrUnknownOutcome", err)
			}
			if n := len(r.Boots()); n != 2 {
				t.Errorf("%d boots, want the first and the reset", n)
			}
		})
	}
}

// TestHungConnectionsLeaveNothing checks that hanging connections leave no goroutine and no
// listener.
func TestHungConnectionsLeaveNothing(t *testing.T) {
	for _, name := range plain {
		t.Run(name, func(t *testing.T) {
			r := newPlain(t, name, nil)
			before := runtime.NumGoroutine()
			for range 5 {
				conn, err := r.driver.Dial(t.Context(), r.target)
				if err != nil {
					t.Fatal(err)
				}
				r.SetFaults(fault.Faults{Hang: true})
				if err := conn.SetPower(shortly(t), bmc.ActionOn); !errors.Is(err, bmc.ErrUnknownOutcome) {
					t.Errorf("error %v, want ErrUnknownOutcome", err)
				}
				r.SetFaults()
				if err := conn.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			// Connections end asynchronously.
			eventually.Wait{Limit: longWait, Interval: time.Millisecond, Explain: func() string {
				stacks := make([]byte, 64<<10)
				return fmt.Sprintf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}}.Until(t, "the end of all connections", eventually.Holds(func() bool { return runtime.NumGoroutine() <= before }))
		})
	}
}

// TestForceOffIsForced checks that a forced power-off does not use the shutdown that AMT offers
// while its agent runs.
func TestForceOffIsForced(t *testing.T) {
	r := newPlain(t, bmctest.DriverAMT, nil)
	r.bench.IgnoreShutdown = true
	conn := r.dial(t)
	for _, step := range []struct {
		action bmc.PowerAction
		on     bool
	}{{bmc.ActionOn, true}, {bmc.ActionGracefulOff, true}, {bmc.ActionForceOff, false}} {
		if err := conn.SetPower(t.Context(), step.action); err != nil || r.Powered() != step.on {
			t.Errorf("%s: %v, powered %v, want %v", step.action, err, r.Powered(), step.on)
		}
	}
	without := newPlain(t, bmctest.DriverAMT, func(c *vendorbmc.Config) { c.Agent = false })
	conn = without.dial(t)
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Fatal(err)
	}
	for _, action := range []bmc.PowerAction{bmc.ActionGracefulOff, bmc.ActionGracefulRestart} {
		if err := conn.SetPower(t.Context(), action); !errors.Is(err, bmc.ErrNotSupported) || !without.Powered() || len(without.Boots()) != 1 {
			t.Errorf("%s without an agent: %v, powered %v, boots %v", action, err, without.Powered(), without.Boots())
		}
	}
}

// TestAMTCannotSetMode checks that the network boot is set although the boot mode cannot be.
func TestAMTCannotSetMode(t *testing.T) {
	r := newPlain(t, bmctest.DriverAMT, nil)
	conn := r.dial(t)
	if err := conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.ModeUEFI}); !errors.Is(err, bmc.ErrNotApplied) {
		t.Errorf("error %v, want ErrNotApplied", err)
	}
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bmc.BootTarget{bmc.BootPXE}, r.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

// TestTrust checks that every driver verifies certificates in each connection unless the operator
// opted out (bmclib does not by default).
func TestTrust(t *testing.T) {
	other, err := endpoint.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		change func(*bmc.Target)
		want   error
	}{
		{"its own authority", func(*bmc.Target) {}, nil},
		{"no authority", func(t *bmc.Target) { t.CABundle = nil }, bmc.ErrCertificate},
		{"another authority", func(t *bmc.Target) { t.CABundle = other.PEM() }, bmc.ErrCertificate},
		{"no PEM", func(t *bmc.Target) { t.CABundle = []byte("junk") }, bmc.ErrCertificate},
		{"not verified", func(t *bmc.Target) { t.CABundle, t.InsecureSkipVerify = nil, true }, nil},
		{"pinned", func(target *bmc.Target) { target.CABundle, target.Fingerprint = nil, fingerprint(t, *target) }, nil},
		{"another pin", func(t *bmc.Target) { t.Fingerprint = "sha256:" + strings.Repeat("0", 64) }, bmc.ErrCertificate},
	} {
		for _, name := range plain {
			t.Run(tc.name+" "+name, func(t *testing.T) {
				r := newPlain(t, name, nil)
				tc.change(&r.target)
				wantDial(t, r.driver, r.target, tc.want)
			})
		}
		t.Run(tc.name+" "+bmctest.DriverSupermicro, func(t *testing.T) {
			r := newPersonality(t, bmctest.DriverSupermicro, bmctest.SupermicroX11, nil)
			tc.change(&r.target)
			wantDial(t, r.driver, r.target, tc.want)
		})
		if tc.want != nil {
			continue // the Redfish session comes first, see TestTrustOfLibraryConnection
		}
		for _, d := range redfishDrivers {
			t.Run(tc.name+" firmware "+string(d.p), func(t *testing.T) {
				r := newPersonality(t, d.driver, d.p, nil)
				tc.change(&r.target)
				if _, err := r.dial(t).UpdateFirmware(t.Context(), image(update.BIOS)); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// fingerprint returns the fingerprint of the certificate at the address of a target.
func fingerprint(t *testing.T, target bmc.Target) string {
	t.Helper()
	_, host, _ := strings.Cut(target.Address, "://")
	f, err := trust.Probe(t.Context(), bmc.Target{}, host)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func wantDial(t *testing.T, d bmc.Driver, target bmc.Target, want error) {
	t.Helper()
	conn, err := d.Dial(t.Context(), target)
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if err == nil {
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// counting calls a function before the second connection is accepted.
type counting struct {
	net.Listener
	n      atomic.Int32
	second atomic.Value // func()
}

func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if f, ok := l.second.Load().(func()); ok && err == nil && l.n.Add(1) == 2 {
		f()
	}
	return c, err
}

// TestTrustOfLibraryConnection checks that bmclib's connection is verified too, not only that of
// Redfish.
func TestTrustOfLibraryConnection(t *testing.T) {
	for _, tc := range redfishDrivers {
		t.Run(tc.driver, func(t *testing.T) {
			other, err := labbmc.NewAuthority()
			if err != nil {
				t.Fatal(err)
			}
			plain, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l := &counting{Listener: plain}
			r := newPersonality(t, tc.driver, tc.p, func(c *labbmc.Config) { c.Listener = l })
			l.second.Store(func() { r.SetAuthority(other) })
			conn := r.dial(t)
			_, err = conn.UpdateFirmware(t.Context(), bmc.Update{Image: firmware(update.BIOS, 1<<10), Filename: "BIOS.bin"})
			if !errors.Is(err, bmc.ErrCertificate) {
				t.Errorf("error %v, want ErrCertificate", err)
			}
		})
	}
}

// TestIPv6 checks that bmclib keeps the brackets and the port of an IPv6 host.
func TestIPv6(t *testing.T) {
	for _, name := range plain {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp6", "[::1]:0")
			if err != nil {
				t.Skipf("no IPv6 loopback here: %v", err)
			}
			r := newPlain(t, name, func(c *vendorbmc.Config) { c.Listener = l })
			if !strings.HasPrefix(r.target.Address, name+"://[::1]:") {
				t.Fatalf("address %s", r.target.Address)
			}
			conn := r.dial(t)
			if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil || !r.Powered() {
				t.Errorf("SetPower: %v, powered %v", err, r.Powered())
			}
		})
	}
	for _, tc := range redfishDrivers {
		t.Run(tc.driver, func(t *testing.T) {
			l, err := net.Listen("tcp6", "[::1]:0")
			if err != nil {
				t.Skipf("no IPv6 loopback here: %v", err)
			}
			r := newPersonality(t, tc.driver, tc.p, func(c *labbmc.Config) { c.Listener = l })
			task, err := r.dial(t).UpdateFirmware(t.Context(), bmc.Update{Image: firmware(update.BIOS, 1<<10), Filename: "BIOS.bin"})
			if err != nil || task.ID == "" {
				t.Errorf("task %+v, %v", task, err)
			}
		})
	}
}

// TestDebugEnvironment checks that bmclib is not used if the environment makes it print passwords.
func TestDebugEnvironment(t *testing.T) {
	t.Setenv("DEBUG_BMCLIB", "true")
	r := newPlain(t, bmctest.DriverRPC, nil)
	wantDial(t, r.driver, r.target, bmc.ErrNotSupported)
	if n := r.Requests(); n != 0 {
		t.Errorf("%d requests", n)
	}
}
