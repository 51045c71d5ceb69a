// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// moreEntries bounds the entries that may be added while a log is read.
	moreEntries = 16
	// eraseStep is the pause between two of maxErase polls of an erase.
	eraseStep = 100 * time.Millisecond
	maxErase  = 600
	// lastEntry means the newest entry as an ID, and the end as a next ID (§31.5).
	lastEntry = 0xffff
	// firstTime is the first second that is a date: smaller values count from the start of
	// the BMC (§37).
	firstTime = 0x20000000
)

// EventLog implements bmc.EventLog with the SEL (§31). A log can be followed only from its oldest
// entry. If the IDs are consecutive, as on most BMCs, EventLog reads only the newest entries.
func (c *conn) EventLog(ctx context.Context, limit int) ([]bmc.LogEntry, error) {
	info, err := c.run(ctx, command{what: "read event log size", netFn: netFnStorage, code: 0x40, minLen: 3})
	if err != nil {
		return nil, err
	}
	size := int(binary.LittleEndian.Uint16(info[1:]))
	if limit <= 0 || size == 0 {
		return []bmc.LogEntry{}, nil
	}
	entries, ok, err := c.readNewest(ctx, limit)
	if err != nil {
		return nil, err
	}
	if !ok {
		if entries, err = c.readAll(ctx, limit, size); err != nil {
			return nil, err
		}
	}
	out := []bmc.LogEntry{}
	for _, raw := range entries {
		out = append(out, parseEntry(raw))
	}
	return out, nil
}

// readNewest reads backwards from the newest entry. It returns false if the IDs are not
// consecutive.
func (c *conn) readNewest(ctx context.Context, limit int) (entries [][]byte, ok bool, _ error) {
	next, raw, err := c.entry(ctx, lastEntry)
	if err != nil || next != lastEntry {
		return nil, false, ignoreCode(err)
	}
	entries = [][]byte{raw}
	for id := idOf(raw) - 1; len(entries) < limit && id != 0 && id != lastEntry; id-- {
		next, raw, err := c.entry(ctx, id)
		if isAnyCode(err) {
			// There is no such ID. Check whether the entry before is the oldest.
			_, oldest, err := c.entry(ctx, 0)
			if err != nil {
				return nil, false, ignoreCode(err)
			}
			return entries, idOf(oldest) == id+1, nil
		}
		if err != nil {
			return nil, false, err
		}
		if idOf(raw) != id || next != id+1 {
			return nil, false, nil
		}
		entries = append(entries, raw)
	}
	return entries, true, nil
}

// readAll follows the log from the oldest entry and keeps the newest ones. It reads at most
// size entries and a few that were added meanwhile, and stops at a loop.
func (c *conn) readAll(ctx context.Context, limit, size int) ([][]byte, error) {
	var entries [][]byte
	seen := map[uint16]bool{}
	for id := uint16(0); id != lastEntry && len(seen) < size+moreEntries; {
		next, raw, err := c.entry(ctx, id)
		if err != nil {
			return nil, err
		}
		if seen[idOf(raw)] {
			break
		}
		seen[idOf(raw)] = true
		if entries = append(entries, raw); len(entries) > limit {
			entries = slices.Delete(entries, 0, 1)
		}
		if next == id {
			break
		}
		id = next
	}
	slices.Reverse(entries)
	return entries, nil
}

func idOf(raw []byte) uint16 { return binary.LittleEndian.Uint16(raw) }

// entry reads one entry (§31.5).
func (c *conn) entry(ctx context.Context, id uint16) (next uint16, raw []byte, _ error) {
	data, err := c.run(ctx, command{
		what: "read event log", netFn: netFnStorage, code: 0x43, minLen: 18,
		data: []byte{0, 0, byte(id), byte(id >> 8), 0, 0xff},
	})
	if err != nil {
		return 0, nil, err
	}
	return binary.LittleEndian.Uint16(data), append([]byte(nil), data[2:18]...), nil
}

// parseEntry parses an entry of 16 bytes (§32) with the event tables of go-ipmi.
func parseEntry(raw []byte) (out bmc.LogEntry) {
	out = bmc.LogEntry{ID: strconv.Itoa(int(idOf(raw))), Severity: bmc.HealthOK, Message: fmt.Sprintf("record %x", raw[2:])}
	if at := binary.LittleEndian.Uint32(raw[3:]); raw[2] < 0xe0 && at >= firstTime && at != 0xffffffff {
		out.Created = time.Unix(int64(at), 0).UTC()
	}
	defer func() { _ = recover() }() // go-ipmi may panic on malformed entries
	sel, err := types.ParseSEL(raw)
	if err != nil || sel.Standard == nil {
		return out
	}
	event := sel.Standard
	what := event.EventString()
	if what == "" {
		what = fmt.Sprintf("event %x", raw[12:])
	}
	if event.EventDir {
		what += " (over)"
	}
	out.Message = fmt.Sprintf("%s sensor %d: %s", event.SensorType, event.SensorNumber, what)
	switch event.EventSeverity() {
	case types.EventSeverityWarning:
		out.Severity = bmc.HealthWarning
	case types.EventSeverityCritical, types.EventSeverityDegraded, types.EventSeverityNonFatal:
		out.Severity = bmc.HealthCritical
	}
	return out
}

// ClearEventLog implements bmc.EventLog (§31.4, §31.9). It returns when the log is empty.
func (c *conn) ClearEventLog(ctx context.Context) error {
	reserved, err := c.run(ctx, command{what: "reserve event log", netFn: netFnStorage, code: 0x42, minLen: 2})
	if err != nil {
		return err
	}
	clearLog := func(action byte, write bool) ([]byte, error) {
		return c.run(ctx, command{
			what: "clear event log", netFn: netFnStorage, code: 0x47, write: write, minLen: 1,
			data: []byte{reserved[0], reserved[1], 'C', 'L', 'R', action},
		})
	}
	const start, status, done = 0xaa, 0x00, 0x01
	progress, err := clearLog(start, true)
	for n := 0; err == nil && progress[0]&0x0f != done; n++ {
		if n == maxErase {
			return unanswered("clear event log", true, errNoAnswer)
		}
		select {
		case <-ctx.Done():
			return unanswered("clear event log", true, ctx.Err())
		case <-time.After(eraseStep):
		}
		progress, err = clearLog(status, false)
	}
	return err
}
