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

// openFilter changes Open Session messages (§13.17, §13.18).
type openFilter struct {
	net.PacketConn
	// status is the answer to a request for suite 17; 0 forwards the request.
	status byte
	// onlySuite3 changes each request to suite 3, like a BMC without another suite.
	onlySuite3 bool

	mu    sync.Mutex
	asked []byte
}

// Offsets in a packet outside of a session: RMCP header, RMCP+ session header, payload.
const (
	payloadTypeAt, payloadAt = 5, 16
	openRequest              = 0x10
	authAt, integrityAt      = payloadAt + 12, payloadAt + 20
)

func (o *openFilter) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := o.PacketConn.ReadFrom(p)
		if err != nil || n < payloadAt+32 || p[4] != 0x06 || p[payloadTypeAt] != openRequest {
			return n, from, err
		}
		o.mu.Lock()
		o.asked = append(o.asked, p[authAt])
		o.mu.Unlock()
		if o.onlySuite3 {
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

func (o *openFilter) requests() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.asked)
}

func newFilter(t *testing.T, change func(*openFilter)) (*rig, *openFilter) {
	t.Helper()
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := &openFilter{PacketConn: packets}
	change(o)
	return newRig(t, func(c *labipmi.Config) { c.Packets = o }), o
}

// TestRefusedOpenSessionTriesNextSuite shows that only a full session table ends the login at
// Open Session, which has no user name.
func TestRefusedOpenSessionTriesNextSuite(t *testing.T) {
	for _, status := range []byte{0x02, 0x03, 0x09, 0x0a, 0x0c, 0x0d, 0x11, 0x12, 0xff} {
		t.Run(fmt.Sprintf("%02Xh", status), func(t *testing.T) {
			r, o := newFilter(t, func(o *openFilter) { o.status = status })
			conn := r.dial(t)
			if _, err := conn.PowerState(t.Context()); err != nil {
				t.Error(err)
			}
			if got := o.requests(); !bytes.Equal(got, []byte{3, 1}) {
				t.Errorf("requested authentication %v, want 3 and then 1", got)
			}
		})
	}
	for _, status := range []byte{0x01, 0x0b} {
		r, o := newFilter(t, func(o *openFilter) { o.status = status })
		_, err := ipmi.Dial(t.Context(), r.target)
		wantError(t, err, bmc.ErrBusy)
		if got := o.requests(); len(got) != 1 {
			t.Errorf("%d requests to a full table", len(got))
		}
	}
}

// TestSuite3InsteadOf17 covers a BMC that always answers with suite 3, like pyghmi's.
func TestSuite3InsteadOf17(t *testing.T) {
	r, o := newFilter(t, func(o *openFilter) { o.onlySuite3 = true })
	conn := r.dial(t)
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil || !r.bench.Powered() {
		t.Errorf("SetPower: %v", err)
	}
	if got := o.requests(); !bytes.Equal(got, []byte{3}) {
		t.Errorf("requested authentication %v, want only 3", got)
	}
	wrong := r.target
	wrong.Password += "x"
	_, err := ipmi.Dial(t.Context(), wrong)
	wantError(t, err, bmc.ErrUnauthorized)
}

// selective refuses the commands that refuses selects.
func selective(t *testing.T, code byte, refuses func(netFn, cmd byte, data []byte) bool) (*rig, func() bmc.Conn) {
	t.Helper()
	r := newRig(t, nil)
	return r, func() bmc.Conn {
		r.SetFaults(labipmi.Faults{Code: code, MatchData: refuses})
		return r.dial(t)
	}
}

// TestRefusedRecordHidesNoOthers shows that a refused sensor record hides only its sensor.
func TestRefusedRecordHidesNoOthers(t *testing.T) {
	for _, code := range []byte{0xc3, 0xff, 0xc9, 0xcb} {
		for name, tc := range map[string]struct {
			refuses func(id uint16, offset, count byte) bool
			want    []string
		}{
			"first, at once":              {func(id uint16, _, count byte) bool { return id <= 1 && count == 0xff }, []string{"CPU Temp", "FAN 1"}},
			"first, more than 5 bytes":    {func(id uint16, _, count byte) bool { return id <= 1 && count > 5 }, []string{"CPU Temp", "FAN 1"}},
			"first, except its header":    {func(id uint16, offset, count byte) bool { return id <= 1 && (offset > 0 || count > 5) }, []string{"FAN 1"}},
			"first, including its header": {func(id uint16, _, _ byte) bool { return id <= 1 }, []string{"FAN 1"}},
			"all":                         {func(uint16, byte, byte) bool { return true }, nil},
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

// TestRefusedReadingsAreUnknownHealth covers a BMC that refuses every sensor reading.
func TestRefusedReadingsAreUnknownHealth(t *testing.T) {
	_, dial := selective(t, 0xcb, func(netFn, cmd byte, _ []byte) bool { return netFn == 0x04 && cmd == 0x2d })
	conn := dial()
	report, err := conn.Health(context.Background())
	if err != nil || report.Overall != bmc.HealthUnknown {
		t.Errorf("health %s, %v; want Unknown", report.Overall, err)
	}
	if vitals, err := conn.PollState(t.Context()); err != nil || vitals.Health != bmc.HealthUnknown {
		t.Errorf("vitals %s, %v; want Unknown", vitals.Health, err)
	}
}

// TestFRUInSmallReads shows that the identity is read from a BMC that refuses long reads of its
// FRU with any code.
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
