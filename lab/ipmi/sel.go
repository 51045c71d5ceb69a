// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"encoding/binary"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"
)

// sel is the System Event Log (IPMI v2.0 §31). BMC.mu guards it.
type sel struct {
	// entries have 16 bytes each, oldest first (§32.1). next is the ID of the newest.
	entries [][]byte
	next    uint16
	// reservation of the one client that may clear the log.
	reservation uint16
	erased      time.Time
}

// selRoom is the reported capacity of the log, in entries.
const selRoom = 512

// AddEvent adds an entry for a sensor of a type (table 42-3) that crossed a threshold (event type
// 01h). Offset 2 is the lower critical threshold.
func (b *BMC) AddEvent(sensorType, sensor, offset byte, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := make([]byte, 16)
	entry[2] = 0x02
	binary.LittleEndian.PutUint32(entry[3:], uint32(at.Unix()))
	copy(entry[7:], []byte{0x20, 0, 0x04, sensorType, sensor, 0x01, 0x50 | offset, 0, 0})
	b.sel.add(entry)
}

func (s *sel) add(entry []byte) uint16 {
	s.next++
	binary.LittleEndian.PutUint16(entry, s.next)
	s.entries = append(s.entries, entry)
	return s.next
}

// selInfo answers Get SEL Info (§31.2).
func (b *BMC) selInfo([]byte) ([]byte, types.CompletionCode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []byte{0x51}
	out = binary.LittleEndian.AppendUint16(out, uint16(len(b.sel.entries)))
	out = binary.LittleEndian.AppendUint16(out, uint16((selRoom-len(b.sel.entries))*16))
	added := uint32(0xffffffff)
	if n := len(b.sel.entries); n > 0 {
		added = binary.LittleEndian.Uint32(b.sel.entries[n-1][3:])
	}
	out = binary.LittleEndian.AppendUint32(out, added)
	out = binary.LittleEndian.AppendUint32(out, uint32(b.sel.erased.Unix()))
	const reserves = 0x02
	return append(out, reserves), types.CodeOK
}

// reserveSEL answers Reserve SEL (§31.4).
func (b *BMC) reserveSEL([]byte) ([]byte, types.CompletionCode) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sel.reservation++
	return binary.LittleEndian.AppendUint16(nil, b.sel.reservation), types.CodeOK
}

// selEntry answers Get SEL Entry (§31.5) for whole entries.
func (b *BMC) selEntry(data []byte) ([]byte, types.CompletionCode) {
	if len(data) != 6 {
		return nil, 0xc7
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	id, last := binary.LittleEndian.Uint16(data[2:]), len(b.sel.entries)-1
	for i, entry := range b.sel.entries {
		if found := binary.LittleEndian.Uint16(entry) == id || id == 0 && i == 0 || id == 0xffff && i == last; !found {
			continue
		}
		next := uint16(0xffff)
		if i < last {
			next = binary.LittleEndian.Uint16(b.sel.entries[i+1])
		}
		return append(binary.LittleEndian.AppendUint16(nil, next), entry...), types.CodeOK
	}
	return nil, types.CodeRequestedDataNotPresent
}

// addSEL answers Add SEL Entry (§31.6).
func (b *BMC) addSEL(data []byte) ([]byte, types.CompletionCode) {
	if len(data) != 16 {
		return nil, 0xc7
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return binary.LittleEndian.AppendUint16(nil, b.sel.add(append([]byte(nil), data...))), types.CodeOK
}

// clearSEL answers Clear SEL (§31.9) and clears at once.
func (b *BMC) clearSEL(data []byte) ([]byte, types.CompletionCode) {
	if len(data) != 6 || string(data[2:5]) != "CLR" {
		return nil, 0xcc
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	const initiate, done = 0xaa, 0x01
	switch {
	case binary.LittleEndian.Uint16(data) != b.sel.reservation:
		return nil, 0xc5
	case data[5] == initiate:
		b.sel.entries, b.sel.erased = nil, time.Now()
	}
	return []byte{done}, types.CodeOK
}
