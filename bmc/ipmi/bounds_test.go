// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

// Commands of storage (§31, §33).
const (
	storage   = 0x0a
	getRecord = 0x23
	getSize   = 0x40
	getEntry  = 0x43
)

// entryOf returns a SEL entry with an ID.
func entryOf(id uint16) []byte {
	raw := make([]byte, 16)
	binary.LittleEndian.PutUint16(raw, id)
	raw[2] = 0x02
	return raw
}

// logOf simulates an event log of a size, in which chain returns the ID of an entry and the next one.
func logOf(size uint16, newest uint16, chain func(id uint16) (own, next uint16)) labipmi.Faults {
	return labipmi.Faults{Answer: func(netFn, code byte, data []byte) ([]byte, bool) {
		switch {
		case netFn != storage:
			return nil, false
		case code == getSize:
			return append([]byte{0x51, byte(size), byte(size >> 8), 0, 1}, make([]byte, 9)...), true
		case code == getEntry:
			own, next := newest, uint16(0xfffe) // not the last entry: the IDs are not consecutive
			if id := binary.LittleEndian.Uint16(data[2:]); id != 0xffff {
				own, next = chain(id)
			}
			return append(binary.LittleEndian.AppendUint16(nil, next), entryOf(own)...), true
		}
		return nil, false
	}}
}

// TestEndlessEventLog shows that a log with a loop, or without an end, is read only while it
// has new entries, and at most for its announced size.
func TestEndlessEventLog(t *testing.T) {
	for _, tc := range []struct {
		name  string
		size  uint16
		chain func(id uint16) (own, next uint16)
		want  []string
		most  int
	}{
		{"loop of three", 60000, func(id uint16) (uint16, uint16) {
			return map[uint16]uint16{0: 7, 7: 7, 3: 3, 9: 9}[id], map[uint16]uint16{0: 3, 7: 3, 3: 9, 9: 7}[id]
		}, []string{"9", "3", "7"}, 6},
		{"loop of one", 60000, func(uint16) (uint16, uint16) { return 5, 5 }, []string{"5"}, 4},
		{"one entry for every ID", 60000, func(id uint16) (uint16, uint16) { return 5, id + 1 }, []string{"5"}, 4},
		{"endless, size three", 3, func(id uint16) (uint16, uint16) { return max(id, 1), max(id, 1)*5%65521 + 7 }, nil, 3 + 16 + 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			conn := r.dial(t)
			r.SetFaults(logOf(tc.size, 5, tc.chain))
			entries, err := conn.EventLog(t.Context(), 5)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, e := range entries {
				ids = append(ids, e.ID)
			}
			if diff := cmp.Diff(tc.want, ids); diff != "" && tc.want != nil {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if n := r.asked(getEntry); n > tc.most || len(entries) > 5 {
				t.Errorf("%d entries of %d requests, want at most 5 and %d", len(entries), n, tc.most)
			}
		})
	}
}

// TestEndlessSensors is TestEndlessEventLog for sensor records.
func TestEndlessSensors(t *testing.T) {
	for _, tc := range []struct {
		name string
		next func(id uint16) uint16
		most int
	}{
		{"loop of two", func(id uint16) uint16 { return 3 - id%3 }, 5},
		{"loop of one", func(id uint16) uint16 { return id }, 2},
		{"endless", func(id uint16) uint16 { return (id + 1) % 0xfff0 }, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil)
			conn := r.dial(t)
			r.SetFaults(labipmi.Faults{Answer: func(netFn, code byte, data []byte) ([]byte, bool) {
				if netFn != storage || code != getRecord {
					return nil, false
				}
				id := binary.LittleEndian.Uint16(data[2:])
				record := []byte{byte(id), byte(id >> 8), 0x51, 0xc0, 1, 0} // an OEM record: no sensor
				return append(binary.LittleEndian.AppendUint16(nil, tc.next(id)), record...), true
			}})
			report, err := conn.Health(t.Context())
			if err != nil || report.Overall != bmc.HealthUnknown { // no sensor was read
				t.Errorf("report %+v, error %v; want health Unknown and no error", report, err)
			}
			if n := r.asked(getRecord); n > tc.most {
				t.Errorf("%d records read, want at most %d", n, tc.most)
			}
		})
	}
}

// asked counts the storage commands with a code.
func (r *rig) asked(code byte) (n int) {
	for _, c := range r.Commands() {
		if c.NetFn == storage && c.Code == code {
			n++
		}
	}
	return n
}

// TestEndlessPieces shows that reading a record that arrives byte by byte is bounded by its
// maximum length.
func TestEndlessPieces(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	r.SetFaults(labipmi.Faults{Answer: func(netFn, code byte, data []byte) ([]byte, bool) {
		if netFn != storage || code != getRecord {
			return nil, false
		}
		piece := []byte{1}
		if offset := data[4]; offset == 0 {
			piece = []byte{1, 0, 0x51, 1, 0xff, 0x20}
		}
		return append([]byte{0xff, 0xff}, piece...), true
	}})
	if _, err := conn.Health(t.Context()); err != nil {
		t.Error(fmt.Errorf("health: %w", err))
	}
	if n := r.asked(getRecord); n > 300 {
		t.Errorf("%d requests for one record", n)
	}
}

// TestNMIKeepsPower shows that a diagnostic interrupt leaves the server on.
func TestNMIKeepsPower(t *testing.T) {
	r := newRig(t, nil)
	conn := r.dial(t)
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Fatal(err)
	}
	r.SetFaults(labipmi.Faults{Answer: func(netFn, code byte, data []byte) ([]byte, bool) {
		return nil, netFn == 0 && code == 2 && data[0] == 4 // the simulator does not support it
	}})
	if err := conn.SetPower(t.Context(), bmc.ActionNMI); err != nil {
		t.Error(err)
	}
	commands := r.Commands()
	if last := commands[len(commands)-1].String(); last != "00 02: 04" || !r.bench.Powered() {
		t.Errorf("sent %s, on: %t", last, r.bench.Powered())
	}
}

// TestBMCWithOtherPassword shows that the driver rejects a BMC that does not know the password.
func TestBMCWithOtherPassword(t *testing.T) {
	r := newRig(t, nil)
	r.SetFaults(labipmi.Faults{OtherPassword: true})
	if _, err := ipmi.Dial(t.Context(), r.target); !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("error %v, want ErrUnauthorized", err)
	}
	r.SetFaults(labipmi.Faults{})
	r.dial(t)
}
