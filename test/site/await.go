// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package site

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/lab/audit"
	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/objecthistory"
)

const (
	// patience bounds every wait: far above what a loaded machine needs.
	patience = 6 * time.Minute
	// interval is the pause between two looks where the Config says nothing.
	interval = 200 * time.Millisecond
	// report is how often a wait says what it waits for.
	report = time.Minute
)

// A Missing says what is still missing, or nothing.
type Missing = eventually.Missing

// All is missing until nothing is missing of any.
func All(all ...Missing) Missing { return eventually.All(all...) }

// Await waits until nothing is missing, and says how long it took.
func (s *Site) Await(t testing.TB, what string, missing Missing) {
	t.Helper()
	s.AwaitFor(t, patience, what, missing)
}

// AwaitFor is Await with a bound of its own. It ends early if a process ends that
// should run.
func (s *Site) AwaitFor(t testing.TB, limit time.Duration, what string, missing Missing) {
	t.Helper()
	eventually.Wait{Limit: limit, Interval: s.config.Interval, Report: report, Broken: s.err}.Until(t, what, missing)
}

// Record keeps every version of the objects of some kinds, in all namespaces,
// until the test ends.
func (s *Site) Record(t testing.TB, kinds ...client.ObjectList) *objecthistory.History {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	h, err := objecthistory.Record(ctx, s.Client, objecthistory.Options{Kinds: kinds})
	t.Cleanup(func() {
		cancel()
		if h != nil {
			h.Wait()
		}
	})
	check(t, err)
	return h
}

// Audit lists every request that the API server has answered since a moment, in
// the order of the answers; the zero time: all.
func (s *Site) Audit(t testing.TB, since time.Time) []audit.Event {
	t.Helper()
	all, err := audit.Read(s.Plane.AuditLog())
	check(t, err)
	var events []audit.Event
	for _, e := range all {
		if !e.Answered.Before(since) {
			events = append(events, e)
		}
	}
	return events
}

// Changes lists a user's requests since a moment that were to change something.
// Ingot's manager is management.Username.
func (s *Site) Changes(t testing.TB, username string, since time.Time) []audit.Event {
	t.Helper()
	var changes []audit.Event
	for _, e := range s.Audit(t, since) {
		if e.User.Username == username && e.Changes() {
			changes = append(changes, e)
		}
	}
	return changes
}

// identities are how the users of Ingot's Deployments begin.
var identities = []string{"system:serviceaccount:" + management.Namespace + ":", "system:serviceaccount:" + management.BootNamespace + ":"}

// Writes are the requests by Ingot's Deployments in a window that changed something
// or were to. leases counts apart from them how often a leader renewed what it leads
// by: that is about no object of a cluster.
func (s *Site) Writes(from, to time.Time) (writes []audit.Event, leases int, _ error) {
	events, err := audit.Read(s.Plane.AuditLog())
	if err != nil {
		return nil, 0, err
	}
	for _, e := range events {
		if !slices.ContainsFunc(identities, func(of string) bool { return strings.HasPrefix(e.User.Username, of) }) || !e.Changes() || e.Answered.Before(from) || e.Received.After(to) {
			continue
		}
		if e.Object.APIGroup == "coordination.k8s.io" && e.Object.Resource == "leases" {
			leases++
			continue
		}
		writes = append(writes, e)
	}
	return writes, leases, nil
}

// Silent says what Ingot wrote last, until that is as long ago as asked for.
func (s *Site) Silent(span time.Duration) Missing {
	var last audit.Event
	return func(context.Context) (string, error) {
		if time.Since(last.Answered) >= span { // the log is long, and need not be read before
			writes, _, err := s.Writes(last.Answered.Add(time.Nanosecond), time.Now())
			if err != nil {
				return "", err
			}
			if len(writes) > 0 {
				last = writes[len(writes)-1]
			}
		}
		if time.Since(last.Answered) >= span {
			return "", nil
		}
		return "silence after: " + Text(last), nil
	}
}

// Text is one request of an audit log, for people.
func Text(e audit.Event) string {
	resource := strings.Trim(e.Object.Resource+"/"+e.Object.Subresource, "/")
	user := e.User.Username
	for _, of := range identities {
		user = strings.TrimPrefix(user, of)
	}
	return fmt.Sprintf("%s: %s %s %s/%s %s", user, e.Verb, resource, e.Object.Namespace, e.Object.Name, e.RequestBody)
}
