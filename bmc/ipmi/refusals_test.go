// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

// opener changes Open Session on its way to or from a BMC (§13.17, §13.18).
type opener struct {
	net.PacketConn
	// status refuses a request for suite 17; 0: none is refused.
	status byte
	// only3 has each request ask for suite 3, as a BMC does that has nothing else.
	only3 bool

	mu    sync.Mutex
	asked []byte
}

// Offsets in a packet outside of a session: the RMCP header, the session header of RMCP+
// and the payload.
const (
	payloadTypeAt, payloadAt = 5, 16
	openRequest              = 0x10
	authAt, integrityAt      = payloadAt + 12, payloadAt + 20
)

func (o *opener) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := o.PacketConn.ReadFrom(p)
		if err != nil || n < payloadAt+32 || p[4] != 0x06 || p[payloadTypeAt] != openRequest {
			return n, from, err
		}
		o.mu.Lock()
		o.asked = append(o.asked, p[authAt])
		o.mu.Unlock()
		if o.only3 {
			p[authAt], p[integrityAt] = 1, 1
		}
		if o.status != 0 && p[authAt] == 3 {
			answer := bytes.Clone(p[:payloadAt+8])
			answer[payloadTypeAt] = openRequest + 1
			binary.LittleEndian.PutUint16(answer[payloadAt-2:], 8)
			answer[payloadAt+1] = o.status
			if _, err := o.PacketConn.WriteTo(answer, from); err != nil {
				return 0, nil, err
			}
			continue
		}
		return n, from, nil
	}
}

func (o *opener) requests() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.asked)
}

func newOpener(t *testing.T, change func(*opener)) (*rig, *opener) {
	t.Helper()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &opener{PacketConn: packets}
	change(o)
	return newRig(t, func(c *labipmi.Config) { c.Packets = o }), o
}

// TestRefusedOpenSessionLeadsToTheNextSuite: Open Session carries no user name, so that no
// refusal of it is one of the credentials. Only a full table ends the login there.
func TestRefusedOpenSessionLeadsToTheNextSuite(t *testing.T) {
	for _, status := range []byte{0x02, 0x03, 0x09, 0x0a, 0x0c, 0x0d, 0x11, 0x12, 0xff} {
		t.Run(fmt.Sprintf("%02Xh", status), func(t *testing.T) {
			r, o := newOpener(t, func(o *opener) { o.status = status })
			conn := r.dial(t)
			if _, err := conn.PowerState(t.Context()); err != nil {
				t.Error(err)
			}
			if got := o.requests(); !bytes.Equal(got, []byte{3, 1}) {
				t.Errorf("asked for authentication %v, want 3 and then 1", got)
			}
		})
	}
	for _, status := range []byte{0x01, 0x0b} {
		r, o := newOpener(t, func(o *opener) { o.status = status })
		_, err := ipmi.Dial(t.Context(), r.target)
		wantError(t, err, bmc.ErrBusy)
		if got := o.requests(); len(got) != 1 {
			t.Errorf("a full table was asked %d times", len(got))
		}
	}
}

// TestSuite3WhateverIsAsked: pyghmi answers with the algorithms of suite 3 whatever is
// asked.
func TestSuite3WhateverIsAsked(t *testing.T) {
	r, o := newOpener(t, func(o *opener) { o.only3 = true })
	conn := r.dial(t)
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil || !r.bench.Powered() {
		t.Errorf("SetPower: %v", err)
	}
	if got := o.requests(); !bytes.Equal(got, []byte{3}) {
		t.Errorf("asked for authentication %v, want 3 alone", got)
	}
	wrong := r.target
	wrong.Password += "x"
	_, err := ipmi.Dial(t.Context(), wrong)
	wantError(t, err, bmc.ErrUnauthorized)
}

// selective refuses what its function names, and leaves the rest to the BMC.
func selective(t *testing.T, code byte, refuses func(netFn, cmd byte, data []byte) bool) (*rig, func() bmc.Conn) {
	t.Helper()
	r := newRig(t, nil)
	return r, func() bmc.Conn {
		r.SetFaults(labipmi.Faults{Code: code, MatchData: refuses})
		return r.dial(t)
	}
}

// TestRefusedRecordsHideNoOthers: a sensor record that the BMC refuses, whole and in
// pieces, costs that sensor only.
func TestRefusedRecordsHideNoOthers(t *testing.T) {
	for _, code := range []byte{0xc3, 0xff, 0xc9, 0xcb} {
		for name, tc := range map[string]struct {
			refuses func(id uint16, offset, count byte) bool
			want    []string
		}{
			"the first, whole":          {func(id uint16, _, count byte) bool { return id <= 1 && count == 0xff }, []string{"CPU Temp", "FAN 1"}},
			"the first, past 4 bytes":   {func(id uint16, _, count byte) bool { return id <= 1 && count > 5 }, []string{"CPU Temp", "FAN 1"}},
			"the first, but its header": {func(id uint16, offset, count byte) bool { return id <= 1 && (offset > 0 || count > 5) }, []string{"FAN 1"}},
			"the first, altogether":     {func(id uint16, _, _ byte) bool { return id <= 1 }, []string{"FAN 1"}},
			"all":                       {func(uint16, byte, byte) bool { return true }, nil},
		} {
			t.Run(fmt.Sprintf("%02Xh, %s", code, name), func(t *testing.T) {
				_, dial := selective(t, code, func(netFn, cmd byte, data []byte) bool {
					return netFn == 0x0a && cmd == getRecord && len(data) == 6 && tc.refuses(binary.LittleEndian.Uint16(data[2:]), data[4], data[5])
				})
				report, err := dial().Health(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var names []string
				for _, c := range report.Components {
					names = append(names, c.Name)
				}
				if diff := cmp.Diff(tc.want, names); diff != "" {
					t.Errorf("sensors (-want +got):\n%s", diff)
				}
				if want := map[bool]bmc.HealthState{true: bmc.HealthUnknown, false: bmc.HealthCritical}[tc.want == nil]; report.Overall != want {
					t.Errorf("health %s, want %s", report.Overall, want)
				}
			})
		}
	}
}

// TestRefusedReadingsAreNoHealth: a BMC that refuses to read each sensor does not show that
// the server is well.
func TestRefusedReadingsAreNoHealth(t *testing.T) {
	_, dial := selective(t, 0xcb, func(netFn, cmd byte, _ []byte) bool { return netFn == 0x04 && cmd == 0x2d })
	conn := dial()
	report, err := conn.Health(context.Background())
	if err != nil || report.Overall != bmc.HealthUnknown {
		t.Errorf("health %s, %v; want Unknown", report.Overall, err)
	}
	if vitals, err := conn.Vitals(t.Context()); err != nil || vitals.Health != bmc.HealthUnknown {
		t.Errorf("vitals %s, %v; want Unknown", vitals.Health, err)
	}
}

// TestFRUInSmallReads: a BMC that refuses long reads of its FRU tells serial number and
// model all the same, whatever code it refuses them with.
func TestFRUInSmallReads(t *testing.T) {
	for _, code := range []byte{0xc3, 0xc7, 0xc8, 0xc9, 0xca, 0xcc, 0xff} {
		t.Run(fmt.Sprintf("%02Xh", code), func(t *testing.T) {
			_, dial := selective(t, code, func(netFn, cmd byte, data []byte) bool {
				return netFn == 0x0a && cmd == 0x11 && len(data) == 4 && data[3] > 16
			})
			id, err := dial().Identity(t.Context())
			if err != nil || id.Serial != system().Serial || id.Model != system().Model {
				t.Errorf("identity %+v, %v", id, err)
			}
		})
	}
}
