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
	// maxLogPages and maxLogEntries bound one read of a log.
	maxLogPages   = 40
	maxLogEntries = 20_000
	// maxLogMessage of one entry, in bytes.
	maxLogMessage = 1024
)

// systemLogs are the vendors' names of the system event log, best first: Dell Sel, HPE IML,
// Supermicro Log1, OpenBMC EventLog, Lenovo PlatformLog.
var systemLogs = []string{"sel", "iml", "log1", "eventlog", "platformlog", "standardlog"}

type logServiceResource struct {
	Type    string `json:"LogEntryType"`
	Entries link   `json:"Entries"`
	Actions struct {
		Clear *actionResource `json:"#LogService.ClearLog"`
	} `json:"Actions"`
}

// logPage is LogEntryCollection. Most BMCs list the entries, some only links to them.
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

// eventLog finds the log of the system or of its manager.
func (c *conn) eventLog() (logServiceResource, error) {
	paths, err := c.systemOrManagerMembers(func(s *systemResource, m managerResource) [2]link { return [2]link{s.LogServices, m.LogServices} })
	if err != nil {
		return logServiceResource{}, err
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
			if ignoreUnsupported(err) != nil && !brokeDown(err) {
				return logServiceResource{}, err
			}
			unread = cmp.Or(unread, ignoreUnsupported(err))
			continue
		}
		if log.Entries.ID != "" && (rank(p) < len(systemLogs) || log.Type == "SEL") {
			return log, nil
		}
	}
	if unread != nil {
		return logServiceResource{}, unread
	}
	return logServiceResource{}, notSupported("no system event log")
}

// EventLog implements bmc.EventLog. However long the log is, at most limit entries are held.
func (c *conn) EventLog(ctx context.Context, limit int) (_ []bmc.LogEntry, err error) {
	c.begin(ctx)
	defer wrap(&err, "read event log")
	log, err := c.eventLog()
	if err != nil {
		return nil, err
	}
	return c.newest(log.Entries.ID, limit)
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
			if err := ignoreUnsupported(c.get(e.Path, &e)); err != nil {
				return nil, err
			}
		}
		entries = append(entries, e.entry(c))
	}
	return entries, nil
}

// newerFirst orders by time, then by number.
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

// number returns the number at the end of the ID or of the path.
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
func (c *conn) ClearEventLog(ctx context.Context) (err error) {
	c.begin(ctx)
	defer wrap(&err, "clear event log")
	log, err := c.eventLog()
	if err != nil {
		return err
	}
	if action := log.Actions.Clear; action != nil && action.Target != "" {
		return c.send(http.MethodPost, action.Target, map[string]any{}, nil)
	}
	return notSupported("the log has no ClearLog action")
}

// Entries of a page that are not objects are skipped.
var _ json.Unmarshaler = (*logEntryResource)(nil)

// UnmarshalJSON implements json.Unmarshaler.
func (e *logEntryResource) UnmarshalJSON(data []byte) error {
	type fields logEntryResource
	var f fields
	if err := decode(data, &f); err != nil {
		return nil // leaves an empty entry
	}
	*e = logEntryResource(f)
	return nil
}
