// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// maxEntries bounds the entries, as in a small SEL.
const maxEntries = 512

type entry struct {
	id                int
	at                time.Time
	severity, message string
}

// Service is the log. It is safe for concurrent use.
type Service struct {
	p    personality.Personality
	path string
	now  func() time.Time

	mu      sync.Mutex
	entries []entry
	last    int
}

// New returns an empty log.
func New(p personality.Personality, now func() time.Time) *Service {
	return &Service{p: p, path: p.At(p.LogAt) + "/LogServices", now: now}
}

// Append adds an entry; severity is "OK", "Warning" or "Critical".
func (s *Service) Append(severity, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.entries = append(s.entries, entry{s.last, s.now(), severity, message})
	if len(s.entries) > maxEntries {
		s.entries = s.entries[1:]
	}
}

// Link adds the log services to the system or manager that has them.
func (s *Service) Link(parent personality.Parent, o resource.Object) {
	if s.p.Log != "" && parent == s.p.LogAt {
		o["LogServices"] = resource.Ref(s.path)
	}
}

// Read returns the service, its entries, or the collection of services.
func (s *Service) Read(path string) (resource.Object, bool) {
	if s.p.Log == "" {
		return nil, false
	}
	log := s.path + "/" + s.p.Log
	switch path {
	case s.path:
		return resource.Collection(path, "LogService", []string{log}), true
	case log:
		o := resource.New(path, "LogService.v1_5_0", "System Event Log")
		o["LogEntryType"], o["ServiceEnabled"], o["MaxNumberOfRecords"] = "SEL", true, maxEntries
		o["Entries"] = resource.Ref(path + "/Entries")
		o["Actions"] = resource.Object{"#LogService.ClearLog": resource.Object{"target": path + "/Actions/LogService.ClearLog"}}
		return o, true
	}
	tail, ok := strings.CutPrefix(path, log+"/Entries")
	if !ok {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if tail == "" {
		// The collection contains the entries (DSP0266, expanded members).
		members := make([]resource.Object, len(s.entries))
		for i, e := range s.entries {
			members[i] = e.object(path)
		}
		o := resource.Collection(path, "LogEntry", nil)
		o["Members"], o["Members@odata.count"] = members, len(members)
		return o, true
	}
	for _, e := range s.entries {
		if tail == "/"+strconv.Itoa(e.id) {
			return e.object(log + "/Entries"), true
		}
	}
	return nil, false
}

func (e entry) object(entries string) resource.Object {
	o := resource.New(entries+"/"+strconv.Itoa(e.id), "LogEntry.v1_15_1", "Log Entry")
	o["EntryType"], o["Created"], o["Severity"], o["Message"] = "SEL", e.at.UTC().Format(time.RFC3339), e.severity, e.message
	return o
}

// Write clears the log.
func (s *Service) Write(r resource.Request) (resource.Answer, bool) {
	if s.p.Log == "" || !r.Is(http.MethodPost, s.path+"/"+s.p.Log+"/Actions/LogService.ClearLog") {
		return resource.Answer{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = nil
	return resource.Done("ClearLog"), true
}
