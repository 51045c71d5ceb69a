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
	// moreEntries may come while a log is read.
	moreEntries = 16
	// eraseStep is the pause between two questions whether the log is empty.
	eraseStep = 100 * time.Millisecond
	// maxErase is how often that is asked.
	maxErase = 600
	// lastEntry, as an ID, is the newest entry; as a next ID, the end (§31.5).
	lastEntry = 0xffff
	// firstTime is the first second that is a date: smaller ones count from the
	// start of the BMC (§37).
	firstTime = 0x20000000
)

// EventLog implements bmc.EventLog from the SEL (§31). The log can be followed
// from the oldest entry only; where the IDs count up, as nearly everywhere, only
// the newest entries are read.
func (c *conn) EventLog(ctx context.Context, limit int) ([]bmc.LogEntry, error) {
	info, err := c.run(ctx, command{what: "read event log size", netFn: netFnStorage, code: 0x40, least: 3})
	if err != nil {
		return nil, err
	}
	size := int(binary.LittleEndian.Uint16(info[1:]))
	if limit <= 0 || size == 0 {
		return []bmc.LogEntry{}, nil
	}
	entries, ok, err := c.newest(ctx, limit)
	if err != nil {
		return nil, err
	}
	if !ok {
		if entries, err = c.walk(ctx, limit, size); err != nil {
			return nil, err
		}
	}
	out := []bmc.LogEntry{}
	for _, raw := range entries {
		out = append(out, parseEntry(raw))
	}
	return out, nil
}

// newest reads backwards from the newest entry; false: the IDs do not count.
func (c *conn) newest(ctx context.Context, limit int) (entries [][]byte, ok bool, _ error) {
	next, raw, err := c.entry(ctx, lastEntry)
	if err != nil || next != lastEntry {
		return nil, false, ignoreCode(err)
	}
	entries = [][]byte{raw}
	for id := idOf(raw) - 1; len(entries) < limit && id != 0 && id != lastEntry; id-- {
		next, raw, err := c.entry(ctx, id)
		if isAnyCode(err) {
			// There is none of this ID: is the one before it the oldest?
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

// walk follows the log from the oldest entry and keeps the newest. It reads no more
// entries than the log says to have, and a few that came meanwhile; a log that leads
// back to what was read has come to its end.
func (c *conn) walk(ctx context.Context, limit, size int) ([][]byte, error) {
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
		what: "read event log", netFn: netFnStorage, code: 0x43, least: 18,
		data: []byte{0, 0, byte(id), byte(id >> 8), 0, 0xff},
	})
	if err != nil {
		return 0, nil, err
	}
	return binary.LittleEndian.Uint16(data), append([]byte(nil), data[2:18]...), nil
}

// parseEntry reads an entry of 16 bytes (§32). Its words come from the standard's
// tables, by go-ipmi.
func parseEntry(raw []byte) (out bmc.LogEntry) {
	out = bmc.LogEntry{ID: strconv.Itoa(int(idOf(raw))), Severity: bmc.HealthOK, Message: fmt.Sprintf("record %x", raw[2:])}
	if at := binary.LittleEndian.Uint32(raw[3:]); raw[2] < 0xe0 && at >= firstTime && at != 0xffffffff {
		out.Created = time.Unix(int64(at), 0).UTC()
	}
	defer func() { _ = recover() }() // go-ipmi's tables must not end the program
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
	severity := event.EventSeverity()
	out.Message = fmt.Sprintf("%s sensor %d: %s", event.SensorType, event.SensorNumber, what)
	switch severity {
	case types.EventSeverityWarning:
		out.Severity = bmc.HealthWarning
	case types.EventSeverityCritical, types.EventSeverityDegraded, types.EventSeverityNonFatal:
		out.Severity = bmc.HealthCritical
	}
	return out
}

// ClearEventLog implements bmc.EventLog (§31.4, §31.9) and returns when the log is
// empty.
func (c *conn) ClearEventLog(ctx context.Context) error {
	reserved, err := c.run(ctx, command{what: "reserve event log", netFn: netFnStorage, code: 0x42, least: 2})
	if err != nil {
		return err
	}
	clearLog := func(action byte, write bool) ([]byte, error) {
		return c.run(ctx, command{
			what: "clear event log", netFn: netFnStorage, code: 0x47, write: write, least: 1,
			data: []byte{reserved[0], reserved[1], 'C', 'L', 'R', action},
		})
	}
	const start, status, done = 0xaa, 0x00, 0x01
	progress, err := clearLog(start, true)
	for n := 0; err == nil && progress[0]&0x0f != done; n++ {
		if n == maxErase {
			return lost("clear event log", true, errNoAnswer)
		}
		select {
		case <-ctx.Done():
			return lost("clear event log", true, ctx.Err())
		case <-time.After(eraseStep):
		}
		progress, err = clearLog(status, false)
	}
	return err
}
