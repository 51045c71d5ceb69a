// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

// TestRateLimit shows that every packet counts against the rate limit. A write that was not
// sent because of it does not have an unknown outcome (I17).
func TestRateLimit(t *testing.T) {
	const most = 20 // maximum packets of a login
	r := newRig(t, func(c *labipmi.Config) { c.MaxSessions = 4 * most })
	r.pending = true // logins were aborted
	for burst := 1; ; burst++ {
		if burst > most {
			t.Fatalf("a login took more than %d packets", most)
		}
		pool := bmc.NewPool(ipmi.Dial, bmc.PoolOptions{CallTimeout: soon, CloseTimeout: soon, RateLimit: bmc.RateLimitOptions{Rate: 1e-6, Burst: burst}})
		dialed := false
		err := pool.Do(t.Context(), r.target, func(ctx context.Context, conn bmc.Conn) error {
			dialed = true
			return conn.SetPower(ctx, bmc.ActionOn)
		})
		_ = pool.Close(t.Context()) // the rate limit blocks the logout
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, bmc.ErrUnknownOutcome) {
			t.Fatalf("with %d tokens: %v, want the deadline", burst, err)
		}
		if dialed {
			break
		}
	}
	if r.bench.Powered() {
		t.Error("the write was sent")
	}
}

// TestProbe shows that a probe sends no user name and distinguishes the failures.
func TestProbe(t *testing.T) {
	r := newRig(t, nil)
	if err := ipmi.Probe(t.Context(), r.target); err != nil {
		t.Errorf("a BMC: %v", err)
	}
	if sessions, commands := r.Sessions(), len(r.Commands()); sessions+commands != 0 {
		t.Errorf("%d sessions and %d commands by a probe", sessions, commands)
	}
	r.SetFaults(labipmi.Faults{Silent: true})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := ipmi.Probe(ctx, r.target); !errors.Is(err, bmc.ErrUnreachable) {
		t.Errorf("silence: %v, want ErrUnreachable", err)
	}
	r.SetFaults(labipmi.Faults{Garbage: []byte("hello")})
	ctx, cancel = context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := ipmi.Probe(ctx, r.target); !errors.Is(err, bmc.ErrProtocol) {
		t.Errorf("garbage: %v, want ErrProtocol", err)
	}
	if err := ipmi.Probe(t.Context(), bmc.Target{Address: "ipmi://a:" + bmctest.CanaryWord + "@h"}); !errors.Is(err, bmc.ErrAddress) || strings.Contains(err.Error(), bmctest.CanaryWord) {
		t.Errorf("a bad address: %v, want ErrAddress", err)
	}
	closed, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	if err := ipmi.Probe(t.Context(), bmc.Target{Address: "ipmi://" + closed.LocalAddr().String()}); !errors.Is(err, bmc.ErrUnreachable) {
		t.Errorf("a closed port: %v, want ErrUnreachable", err)
	}
}

// TestProbeWithoutIPMI2 covers a BMC with only IPMI v1.5.
func TestProbeWithoutIPMI2(t *testing.T) {
	old, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	go func() {
		p := make([]byte, 256)
		for {
			n, from, err := old.ReadFrom(p)
			if err != nil {
				return
			}
			// The answer to Get Channel Authentication Capabilities (§22.13), without the
			// bit of extended data: header, message from the BMC, 8 bytes.
			message := []byte{0x81, 0x1c, 0, 0x20, p[18:n][0], 0x38, 0, 1, 0x16, 0, 0, 0, 0, 0, 0}
			message[2] = -(message[0] + message[1])
			var sum byte
			for _, b := range message[3:] {
				sum -= b
			}
			message = append(message, sum)
			_, _ = old.WriteTo(append(append([]byte{6, 0, 0xff, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0}, byte(len(message))), message...), from)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := ipmi.Probe(ctx, bmc.Target{Address: "ipmi://" + old.LocalAddr().String()}); !errors.Is(err, bmc.ErrNotSupported) {
		t.Errorf("got %v, want ErrNotSupported", err)
	}
}

// TestCertificateIsRefused shows that a target with a certificate is rejected.
func TestCertificateIsRefused(t *testing.T) {
	r := newRig(t, nil)
	for name, change := range map[string]func(*bmc.Target){
		"a pin": func(t *bmc.Target) { t.Fingerprint = "sha256:x" },
		"a CA":  func(t *bmc.Target) { t.CABundle = []byte("x") },
	} {
		target := r.target
		change(&target)
		if _, err := ipmi.Dial(t.Context(), target); !errors.Is(err, bmc.ErrAddress) {
			t.Errorf("%s: %v, want ErrAddress", name, err)
		}
	}
}

// TestSensorReadContinues shows that an interrupted read of the repository continues at the
// same record: a large server would never be read completely otherwise.
func TestSensorReadContinues(t *testing.T) {
	const many = 12
	r := newRig(t, func(c *labipmi.Config) {
		c.Sensors = nil
		for i := range byte(many) {
			c.Sensors = append(c.Sensors, labipmi.Sensor{Number: i + 1, Type: 1, Unit: 1, Name: fmt.Sprintf("Temp %d", i+1), Value: 40})
		}
	})
	conn := r.dial(t)
	const storage, getRecord, busy = 0x0a, 0x23, 0xc0
	isRecord := func(netFn, code byte) bool { return netFn == storage && code == getRecord }
	var asked atomic.Int32
	r.SetFaults(labipmi.Faults{Code: busy, Match: func(netFn, code byte) bool { return isRecord(netFn, code) && asked.Add(1) > 3*many }})
	if _, err := conn.Health(t.Context()); !errors.Is(err, bmc.ErrBusy) {
		t.Fatalf("a BMC that is busy: %v, want ErrBusy", err)
	}
	r.SetFaults(labipmi.Faults{})
	for range 2 {
		report, err := conn.Health(t.Context())
		if err != nil || len(report.Components) != many {
			t.Fatalf("%d components, error %v, want %d", len(report.Components), err, many)
		}
	}
	reads := 0
	for _, c := range r.Commands() {
		if isRecord(c.NetFn, c.Code) && c.Data[5] == 0xff { // the first read of each record
			reads++
		}
	}
	if reads != many+1 { // the interrupted one twice
		t.Errorf("%d records read, want %d", reads, many+1)
	}
}
