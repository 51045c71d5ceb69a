// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// maxLogPages and maxLogEntries bound what one read of a log goes through.
	maxLogPages   = 40
	maxLogEntries = 20_000
	// maxLogMessage of one entry, in bytes.
	maxLogMessage = 1024
)

// systemLogs are the names that makers have for the system event log, best first:
// Dell Sel, HPE IML, Supermicro Log1, OpenBMC EventLog, Lenovo PlatformLog.
var systemLogs = []string{"sel", "iml", "log1", "eventlog", "platformlog", "standardlog"}

type logServiceResource struct {
	Type    string `json:"LogEntryType"`
	Entries link   `json:"Entries"`
	Actions struct {
		Clear *actionResource `json:"#LogService.ClearLog"`
	} `json:"Actions"`
}

// logPage is LogEntryCollection. Most list the entries themselves, some links to
// them.
type logPage struct {
	Members []logEntryResource `json:"Members"`
	Next    string             `json:"Members@odata.nextLink"`
}

type logEntryResource struct {
	Path     string `json:"@odata.id"`
	ID       string `json:"Id"`
	Created  string `json:"Created"`
	Severity string `json:"Severity"`
	Message  string `json:"Message"`
}

// eventLog finds the log: below the system or below its manager.
func (c *conn) eventLog() (logServiceResource, error) {
	system, err := c.systemForWrite()
	if err != nil {
		return logServiceResource{}, err
	}
	manager, _, err := c.manager(system)
	if err := optional(err); err != nil {
		return logServiceResource{}, err
	}
	var paths []string
	for _, collection := range []string{system.LogServices.ID, manager.LogServices.ID} {
		if collection == "" {
			continue
		}
		members, err := c.members(collection)
		if err != nil && !isMissing(err) {
			return logServiceResource{}, err
		}
		paths = append(paths, members...)
	}
	rank := func(p string) int {
		if i := slices.Index(systemLogs, strings.ToLower(path.Base(p))); i >= 0 {
			return i
		}
		return len(systemLogs)
	}
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	var unread error
	for _, p := range paths {
		var log logServiceResource
		if err := c.get(p, &log); err != nil {
			if optional(err) != nil && !brokeDown(err) {
				return logServiceResource{}, err
			}
			unread = cmp.Or(unread, optional(err))
			continue
		}
		if log.Entries.ID != "" && (rank(p) < len(systemLogs) || log.Type == "SEL") {
			return log, nil
		}
	}
	if unread != nil {
		return logServiceResource{}, unread
	}
	return logServiceResource{}, lacking("no system event log")
}

// EventLog implements bmc.EventLog. At most limit entries are kept while it
// reads, however long the log is.
func (c *conn) EventLog(ctx context.Context, limit int) ([]bmc.LogEntry, error) {
	c.begin(ctx)
	log, err := c.eventLog()
	if err == nil {
		var entries []bmc.LogEntry
		if entries, err = c.newest(log.Entries.ID, limit); err == nil {
			return entries, nil
		}
	}
	return nil, fmt.Errorf("read event log: %w", err)
}

func (c *conn) newest(path string, limit int) ([]bmc.LogEntry, error) {
	var kept []logEntryResource
	seen := 0
	for page := 0; path != ""; page++ {
		var p logPage
		if err := c.getLarge(path, &p); err != nil {
			return nil, err
		}
		if seen += len(p.Members); page >= maxLogPages || seen > maxLogEntries {
			return nil, fmt.Errorf("%w: more than %d pages or %d entries", bmc.ErrProtocol, maxLogPages, maxLogEntries)
		}
		kept = append(kept, p.Members...)
		slices.SortStableFunc(kept, newerFirst)
		kept = slices.Clip(kept[:min(len(kept), max(limit, 0))])
		path = p.Next
	}
	entries := make([]bmc.LogEntry, 0, len(kept))
	for _, e := range kept {
		if e.Message == "" && e.Created == "" && e.Path != "" {
			if err := optional(c.get(e.Path, &e)); err != nil {
				return nil, err
			}
		}
		entries = append(entries, e.entry(c))
	}
	return entries, nil
}

// newerFirst orders by time, and within a second, or without a time, by number.
func newerFirst(a, b logEntryResource) int {
	if n := b.created().Compare(a.created()); n != 0 {
		return n
	}
	return cmp.Compare(b.number(), a.number())
}

func (e logEntryResource) created() time.Time {
	t, err := time.Parse(time.RFC3339, e.Created)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// number is what the ID, or the path, ends with.
func (e logEntryResource) number() int64 {
	id := cmp.Or(e.ID, path.Base(e.Path))
	n, err := strconv.ParseInt(id[len(strings.TrimRight(id, "0123456789")):], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (e logEntryResource) entry(c *conn) bmc.LogEntry {
	return bmc.LogEntry{
		ID: cmp.Or(e.ID, path.Base(e.Path)), Created: e.created(), Severity: healthState(e.Severity),
		Message: c.short(e.Message, maxLogMessage),
	}
}

// ClearEventLog implements bmc.EventLog.
func (c *conn) ClearEventLog(ctx context.Context) error {
	c.begin(ctx)
	log, err := c.eventLog()
	if err == nil {
		if action := log.Actions.Clear; action == nil || action.Target == "" {
			err = lacking("the log has no ClearLog")
		} else {
			err = c.send(http.MethodPost, action.Target, map[string]any{}, nil)
		}
	}
	if err != nil {
		return fmt.Errorf("clear event log: %w", err)
	}
	return nil
}

// The entries of a page that are no objects are skipped, rather than the page.
var _ json.Unmarshaler = (*logEntryResource)(nil)

// UnmarshalJSON implements json.Unmarshaler.
func (e *logEntryResource) UnmarshalJSON(data []byte) error {
	type fields logEntryResource
	var f fields
	if err := decode(data, &f); err != nil {
		return nil // an entry without a meaning
	}
	*e = logEntryResource(f)
	return nil
}
