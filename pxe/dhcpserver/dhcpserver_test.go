// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcpserver

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

func TestRead(t *testing.T) {
	flaky := errors.New("connection refused")
	for name, tc := range map[string]struct {
		errs  []error // one per read
		stop  bool    // ctx ends with the last
		want  error
		reads int
	}{
		"the socket is closed":        {errs: []error{nil, nil, net.ErrClosed}, want: net.ErrClosed, reads: 3},
		"an error of an answer":       {errs: []error{flaky, nil, net.ErrClosed}, want: net.ErrClosed, reads: 3},
		"ctx ends, the socket closed": {errs: []error{nil, net.ErrClosed}, stop: true, reads: 2},
		"ctx ends, the read fails":    {errs: []error{nil, flaky}, stop: true, reads: 2},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			reads := 0
			err := Read(ctx, slog.New(slog.DiscardHandler), "packet", func() error {
				reads++
				if reads == len(tc.errs) && tc.stop {
					cancel()
				}
				return tc.errs[reads-1]
			})
			if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || reads != tc.reads {
				t.Errorf("%v after %d readings, want %v after %d", err, reads, tc.want, tc.reads)
			}
		})
	}
}

func TestRecover(t *testing.T) {
	var log bytes.Buffer
	func() {
		defer Recover(slog.New(slog.NewTextHandler(&log, nil)), "packet", "192.0.2.7")
		panic("an index")
	}()
	for _, word := range []string{"level=ERROR", "packet", "192.0.2.7", "an index", "TestRecover"} {
		if !strings.Contains(log.String(), word) {
			t.Errorf("the log has no %s: %s", word, log.String())
		}
	}
}

func TestMemory(t *testing.T) {
	var m Memory
	var log bytes.Buffer
	now := time.Unix(0, 0)
	address := netip.MustParseAddr("2001:db8::7")
	m.Decline(address, now)
	if why := m.Withheld(address, now.Add(Quarantine-1)); !strings.Contains(why, "another machine uses 2001:db8::7") || !strings.Contains(why, "at 00:10:00 UTC") {
		t.Errorf("withheld: %q", why)
	}
	if why := m.Withheld(address, now.Add(Quarantine)); why != "" {
		t.Errorf("withheld too long: %q", why)
	}
	m.Decline(address, now)
	m.Use(address)
	if why := m.Withheld(address, now); why != "" || m.Len() != 0 {
		t.Errorf("withheld from its host: %q", why)
	}
	first, second := net.HardwareAddr{2, 0, 0, 0, 0, 1}, net.HardwareAddr{2, 0, 0, 0, 0, 2}
	for i, step := range []struct {
		stage pxe.Stage
		mac   net.HardwareAddr
		peer  netip.Addr
		after time.Duration
		lines int
	}{
		{pxe.StageAck, first, netip.Addr{}, 0, 0},
		{pxe.StageConflict, first, netip.Addr{}, 0, 1},
		{pxe.StageConflict, first, netip.Addr{}, Quiet - 1, 1},
		{pxe.StageConflict, second, netip.Addr{}, 0, 2},
		{pxe.StageWrongNetwork, first, netip.Addr{}, 0, 3},
		{pxe.StageOtherServer, first, address, 0, 4},
		{pxe.StageOtherServer, second, address, 0, 4},
		{pxe.StageConflict, first, netip.Addr{}, 1, 5},
	} {
		now = now.Add(step.after)
		m.Warn(slog.New(slog.NewTextHandler(&log, nil)), pxe.BootEvent{Stage: step.stage, MAC: step.mac, At: now}, step.peer)
		if got := strings.Count(log.String(), "level=WARN"); got != step.lines {
			t.Errorf("step %d: %d lines, want %d", i, got, step.lines)
		}
	}
}
