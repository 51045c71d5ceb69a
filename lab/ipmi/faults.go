// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"bytes"
	"context"
	"net"
	"time"

	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/lab/bmc"
)

// Faults are the faults of a BMC. They may be changed at any time. The zero value has none.
type Faults struct {
	// Silent drops every packet to the BMC, so that commands have no effect.
	Silent bool
	// LoseReplies drops every packet from the BMC; commands have their effect.
	LoseReplies bool
	// DropEvery drops every n-th packet to the BMC; 0: none.
	DropEvery int
	// Latency is added to every answer.
	Latency time.Duration
	// Garbage replaces every answer.
	Garbage []byte
	// Code is the completion code for the commands that Match selects (nil: all but session
	// setup), which have no effect.
	Code  byte
	Match func(netFn, code byte) bool
	// MatchData is Match with the command's data. At most one of them is set.
	MatchData func(netFn, code byte, data []byte) bool
	// Answer replaces the answer to a command of a session if it returns true; the command then
	// has no effect. May be nil.
	Answer func(netFn, code byte, data []byte) ([]byte, bool)
	// OtherPassword makes the BMC prove itself with a password that the client does not know
	// (RAKP message 2, §13.21), so that logins fail.
	OtherPassword bool
	// PowerLie misreports the power state.
	PowerLie bmc.PowerLie
	// ForgetBoot accepts boot flags and drops them.
	ForgetBoot bool
}

// SetFaults replaces the faults.

// SetFaults replaces what is wrong.
func (b *BMC) SetFaults(f Faults) {
	powered := b.cfg.Machine.Powered()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults, b.stale = f, powered
}

func (b *BMC) current() Faults {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults
}

// reportedPower returns the power state that the BMC reports.
func (b *BMC) reportedPower() bool {
	powered := b.cfg.Machine.Powered()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.faults.PowerLie {
	case bmc.Stale:
		return b.stale
	case bmc.Opposite:
		return !powered
	}
	return powered
}

// watch records the commands of sessions and applies Code and Answer.
func (b *BMC) watch(next handlers.Handler) handlers.Handler {
	return handlers.HandlerFunc(func(ctx context.Context, h *handlers.HandlerContext, data []byte) ([]byte, types.CompletionCode, error) {
		netFn, code := byte(h.Command.NetFn), h.Command.ID
		f := b.current()
		if h.Session != nil {
			b.record(netFn, code, data, h.Session)
			if f.Code != 0 && f.refuses(netFn, code, data) {
				return nil, types.CompletionCode(f.Code), nil
			}
			if f.Answer != nil {
				if lie, ok := f.Answer(netFn, code, data); ok {
					return lie, types.CodeOK, nil
				}
			}
		}
		return next.Handle(ctx, h, data)
	})
}

func (f Faults) refuses(netFn, code byte, data []byte) bool {
	if f.MatchData != nil {
		return f.MatchData(netFn, code, data)
	}
	if f.Match != nil {
		return f.Match(netFn, code)
	}
	const app, setPrivilege, closeSession = 0x06, 0x3b, 0x3c
	return netFn != app || (code != setPrivilege && code != closeSession)
}

// isRAKP2 reports whether a packet is the message with which a BMC proves that it knows the
// password, which is not encrypted (§13.6 table 13-8, §13.27.3).
func isRAKP2(p []byte) bool {
	const header, rmcpPlus, payload, shortest = 4, 0x06, 0x13, 16 + 40
	return len(p) > shortest && p[header] == rmcpPlus && p[header+1] == payload
}

// faultyConn is the BMC's socket.
type faultyConn struct {
	net.PacketConn

	bmc *BMC
	// received counts packets. Only the server's loop uses it.
	received int
}

func (c *faultyConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(p)
		if err != nil {
			return n, from, err
		}
		f := c.bmc.current()
		c.received++
		if f.Silent || (f.DropEvery > 0 && c.received%f.DropEvery == 0) {
			continue
		}
		return n, from, nil
	}
}

func (c *faultyConn) WriteTo(p []byte, to net.Addr) (int, error) {
	f := c.bmc.current()
	if f.Latency > 0 {
		select {
		case <-time.After(f.Latency):
		case <-c.bmc.done:
		}
	}
	if f.LoseReplies {
		return len(p), nil
	}
	if f.OtherPassword && isRAKP2(p) {
		p = bytes.Clone(p)
		p[len(p)-1] ^= 0xff
	}
	if f.Garbage != nil {
		p = f.Garbage
	}
	return c.PacketConn.WriteTo(p, to)
}
