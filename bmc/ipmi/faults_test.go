// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

func isNotApplied(err error) bool   { return errors.Is(err, bmc.ErrNotApplied) }
func isUnauthorized(err error) bool { return errors.Is(err, bmc.ErrUnauthorized) }

// wantError checks the class of an error, and that it does not show the password.
func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if err != nil && strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), bmctest.CanaryWord) {
		t.Errorf("error shows the password: %v", err)
	}
}

// chassisControls returns the power actions that the BMC received.
func chassisControls(b *labipmi.BMC) []string {
	var got []string
	for _, c := range b.Commands() {
		if c.NetFn == 0x00 && c.Code == 0x02 {
			got = append(got, c.String())
		}
	}
	return got
}

func TestDialRefusesWithoutSending(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*bmc.Target)
		want   error
	}{
		{"scheme", func(t *bmc.Target) { t.Address = "redfish://127.0.0.1" }, bmc.ErrAddress},
		{"path", func(t *bmc.Target) { t.Address += "/redfish/v1/Systems/1" }, bmc.ErrAddress},
		{"user in the address", func(t *bmc.Target) { t.Address = "ipmi://u:" + bmctest.CanaryWord + "@127.0.0.1" }, bmc.ErrAddress},
		{"bad address with a password", func(t *bmc.Target) { t.Address = "ipmi://u:" + bmctest.CanaryWord + "@[::1" }, bmc.ErrAddress},
		{"port", func(t *bmc.Target) { t.Address = "ipmi://127.0.0.1:0" }, bmc.ErrAddress},
		{"long password", func(t *bmc.Target) { t.Password = canary + canary + canary }, bmc.ErrNotSupported},
		{"zero in the password", func(t *bmc.Target) { t.Password = canary + "\x00" }, bmc.ErrNotSupported},
		{"long user", func(t *bmc.Target) { t.Username = strings.Repeat("u", 17) }, bmc.ErrNotSupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			target := bmc.Target{Address: "ipmi://" + l.LocalAddr().String(), Username: username, Password: canary}
			tc.change(&target)
			_, err = ipmi.Dial(t.Context(), target)
			wantError(t, err, tc.want)
			_ = l.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			if n, _, err := l.ReadFrom(make([]byte, 100)); err == nil {
				t.Errorf("%d bytes were sent", n)
			}
		})
	}
}

func TestDialFailures(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, r *rig)
		// bounded calls have the deadline soon.
		bounded bool
		want    []error
	}{
		{"wrong password", func(_ *testing.T, r *rig) { r.target.Password = canary + "x" }, false, []error{bmc.ErrUnauthorized}},
		{"wrong user", func(_ *testing.T, r *rig) { r.target.Username = "nobody" }, false, []error{bmc.ErrUnauthorized}},
		{"silent", func(_ *testing.T, r *rig) { r.SetFaults(labipmi.Faults{Silent: true}) }, true, []error{bmc.ErrUnreachable, context.DeadlineExceeded}},
		{"closed port", func(t *testing.T, r *rig) {
			l, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			r.target.Address = "ipmi://" + l.LocalAddr().String()
			_ = l.Close()
		}, false, []error{bmc.ErrUnreachable}},
		{"session table full", func(t *testing.T, r *rig) { r.dial(t) }, false, []error{bmc.ErrBusy}},
		{"garbage", func(_ *testing.T, r *rig) {
			r.SetFaults(labipmi.Faults{Garbage: []byte("HTTP/1.1 400 Bad Request\r\n\r\n")})
		}, true, []error{bmc.ErrProtocol}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *labipmi.Config) { c.MaxSessions = 1 })
			tc.change(t, r)
			ctx := t.Context()
			if tc.bounded {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, soon)
				defer cancel()
			}
			_, err := ipmi.Dial(ctx, r.target)
			for _, want := range tc.want {
				wantError(t, err, want)
			}
		})
	}
	t.Run("canceled", func(t *testing.T) {
		r := newRig(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := ipmi.Dial(ctx, r.target)
		wantError(t, err, context.Canceled)
	})
}

func TestCodes(t *testing.T) {
	for _, tc := range []struct {
		code        byte
		read, write error
	}{
		{0xc0, bmc.ErrBusy, bmc.ErrBusy},
		{0xc1, bmc.ErrNotSupported, bmc.ErrNotSupported},
		{0xc3, bmc.ErrProtocol, bmc.ErrUnknownOutcome},
		{0xcc, bmc.ErrNotSupported, bmc.ErrNotSupported},
		{0xd2, bmc.ErrBusy, bmc.ErrBusy},
		{0xd4, bmc.ErrUnauthorized, bmc.ErrUnauthorized},
		{0xd5, bmc.ErrBusy, bmc.ErrBusy},
		{0xff, bmc.ErrProtocol, bmc.ErrUnknownOutcome},
		{0x99, bmc.ErrProtocol, bmc.ErrProtocol},
	} {
		t.Run(fmt.Sprintf("%02X", tc.code), func(t *testing.T) {
			r := newRig(t, nil)
			conn := r.dial(t)
			r.SetFaults(labipmi.Faults{Code: tc.code})
			_, err := conn.PowerState(t.Context())
			wantError(t, err, tc.read)
			wantError(t, conn.SetPower(t.Context(), bmc.ActionGracefulOff), tc.write)
		})
	}
}

// TestRefusedForceOff shows that a refused power-off counts as done only if the server is off
// and the BMC is not busy (I7).
func TestRefusedForceOff(t *testing.T) {
	for code, want := range map[byte]error{0xcc: nil, 0xd5: nil, 0xc0: bmc.ErrBusy, 0xd2: bmc.ErrBusy, 0xc1: bmc.ErrNotSupported} {
		t.Run(fmt.Sprintf("%02X", code), func(t *testing.T) {
			r := newRig(t, nil)
			conn := r.dial(t)
			r.SetFaults(labipmi.Faults{Code: code, Match: func(netFn, code byte) bool { return netFn == 0 && code == 2 }})
			wantError(t, conn.SetPower(t.Context(), bmc.ActionForceOff), want)
		})
	}
}

// TestLostWrite (I17) shows that a write without an answer is sent once, and that the next
// call uses a new session.
func TestLostWrite(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	r.SetFaults(labipmi.Faults{LoseReplies: true})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	err := conn.SetPower(ctx, bmc.ActionOn)
	wantError(t, err, bmc.ErrUnknownOutcome)
	if errors.Is(err, bmc.ErrTimeout) {
		t.Error("an unknown outcome is also a timeout")
	}
	r.SetFaults(labipmi.Faults{})
	state, err := conn.PowerState(t.Context())
	if err != nil || state != bmc.PowerOn {
		t.Errorf("PowerState: %s, %v", state, err)
	}
	if diff := cmp.Diff([]string{"00 02: 01"}, chassisControls(r.BMC)); diff != "" {
		t.Errorf("chassis controls (-want +got):\n%s", diff)
	}
	if n := r.Sessions(); n != 1 {
		t.Errorf("%d sessions, want 1", n)
	}
}

// TestCanceledCallSendsNothing covers a write.
func TestCanceledCallSendsNothing(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := conn.SetPower(ctx, bmc.ActionOn)
	wantError(t, err, context.Canceled)
	if errors.Is(err, bmc.ErrUnknownOutcome) || len(chassisControls(r.BMC)) != 0 {
		t.Errorf("error %v, controls %v", err, chassisControls(r.BMC))
	}
}

// TestLostPackets shows that reads survive packet loss and dropped sessions.
func TestLostPackets(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	r.SetFaults(labipmi.Faults{DropEvery: 3})
	for range 3 {
		if _, err := conn.PowerState(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r.SetFaults(labipmi.Faults{})
	r.ForgetSessions()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := conn.PowerState(ctx)
	wantError(t, err, bmc.ErrTimeout)
	if _, err := conn.PowerState(t.Context()); err != nil {
		t.Errorf("with a new session: %v", err)
	}
}

func TestPowerAfterRestart(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	for _, step := range []struct {
		action bmc.PowerAction
		want   bmc.PowerState
	}{
		{bmc.ActionOn, bmc.PowerOff}, // a wrong state is returned unchanged
		{bmc.ActionForceRestart, bmc.PowerUnknown},
		{bmc.ActionForceOff, bmc.PowerOff},
	} {
		if err := conn.SetPower(t.Context(), step.action); err != nil {
			t.Fatal(err)
		}
		r.SetFaults(labipmi.Faults{PowerLie: labbmc.Opposite})
		if step.action == bmc.ActionForceOff {
			r.SetFaults(labipmi.Faults{})
		}
		if got, err := conn.PowerState(t.Context()); err != nil || got != step.want {
			t.Errorf("after %s: %s, %v, want %s", step.action, got, err, step.want)
		}
	}
}

func TestBootIsForgotten(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	r.SetFaults(labipmi.Faults{ForgetBoot: true})
	wantError(t, conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}), bmc.ErrNotApplied)
	wantError(t, conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootHTTP}), bmc.ErrNotSupported)
	r.SetFaults(labipmi.Faults{})
	for _, target := range []bmc.BootTarget{bmc.BootCD, bmc.BootSetup} {
		want := bmc.BootOverride{Target: target, Mode: bmc.ModeUEFI}
		if err := conn.SetBootOverride(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		got, err := conn.BootOverride(t.Context())
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// TestCloseWithoutAnswer shows that closing a session of a silent BMC is bounded.
func TestCloseWithoutAnswer(t *testing.T) {
	r := newRig(t, nil)
	conn, err := ipmi.Dial(t.Context(), r.target)
	if err != nil {
		t.Fatal(err)
	}
	r.SetFaults(labipmi.Faults{LoseReplies: true})
	wantError(t, conn.Close(t.Context()), bmc.ErrTimeout)
	if err := conn.Close(t.Context()); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if _, err := conn.PowerState(t.Context()); err == nil {
		t.Error("a call after Close succeeds")
	}
}

// TestConsoleIsTaken shows that only one console is open at a time, and that a refused one
// leaves no session.
func TestConsoleIsTaken(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	stream, err := conn.OpenConsole(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.OpenConsole(t.Context())
	wantError(t, err, bmc.ErrBusy)
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
	if _, err := stream.Write([]byte("x")); err == nil {
		t.Error("a closed console accepts input")
	}
	if n := r.Sessions(); n != 1 {
		t.Errorf("%d sessions, want the connection's", n)
	}
}
