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

// Faults are what is wrong with a BMC. They may be changed at any time. The zero
// value is health.
type Faults struct {
	// Silent drops every packet to the BMC; nothing has an effect.
	Silent bool
	// LoseReplies drops every packet from the BMC: commands have their effect.
	LoseReplies bool
	// DropEvery loses every n-th packet to the BMC; 0: none.
	DropEvery int
	// Latency is added to every answer.
	Latency time.Duration
	// Garbage is sent instead of every answer.
	Garbage []byte
	// Code answers the commands that Match names (nil: all but session setup) with
	// that completion code, instead of doing anything.
	Code  byte
	Match func(netFn, code byte) bool
	// MatchData is Match by the command's data too. At most one of them is set.
	MatchData func(netFn, code byte, data []byte) bool
	// Answer lies: where it returns true, its data are the answer to a command of a
	// session, which has no effect. May be nil.
	Answer func(netFn, code byte, data []byte) ([]byte, bool)
	// OtherPassword has logins fail as if the account's password were another's: the BMC
	// proves itself by one that the client does not know (RAKP message 2, §13.21).
	OtherPassword bool
	// PowerLie misreports the power state.
	PowerLie bmc.PowerLie
	// ForgetBoot accepts boot flags and drops them.
	ForgetBoot bool
}

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

// told is the power state that the BMC tells.
func (b *BMC) told() bool {
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

// watch logs the commands of sessions and refuses those that a fault names.
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

// isRAKP2 tells the message by which a BMC proves that it knows the password, in a
// packet without encryption (§13.6 table 13-8, §13.27.3).
func isRAKP2(p []byte) bool {
	const header, rmcpPlus, payload, shortest = 4, 0x06, 0x13, 16 + 40
	return len(p) > shortest && p[header] == rmcpPlus && p[header+1] == payload
}

// faultyConn is the BMC's socket.
type faultyConn struct {
	net.PacketConn

	bmc *BMC
	// received counts packets; only the server's loop reads.
	received int
}

// ReadFrom implements the simulator's transport.
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

// WriteTo implements the simulator's transport.
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
