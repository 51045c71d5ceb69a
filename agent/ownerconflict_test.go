// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agentapi"
)

// damage writes an invalid marker to a disk.
func (s *server) damage(i int) {
	s.t.Helper()
	f, err := os.OpenFile(s.path(s.disks[i]), os.O_RDWR, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("ingot-marker-1 x"), agentapi.MarkerOffset); err != nil {
		s.t.Fatal(err)
	}
}

// The message names exactly the owners to approve, all at once (I8).
func TestConflictMessageNamesAllOwners(t *testing.T) {
	of := func(instance string) *agentapi.Marker { return &agentapi.Marker{InstanceID: instance, Complete: true} }
	wipes := func(mode string) func(*testing.T) *agenttest.Manager {
		return func(*testing.T) *agenttest.Manager {
			m := wipeOrder(agentapi.DiskRef{Serial: "A"}, agentapi.DiskRef{Serial: "B"})
			m.Order.Clean.Mode = mode
			return m
		}
	}
	mirror := func(t *testing.T) *agenttest.Manager { m, _ := mirrorOrder(t); return m }
	install := func(t *testing.T) *agenttest.Manager { m, _ := installOrder(t); return m }
	for _, c := range []struct {
		name    string
		order   func(*testing.T) *agenttest.Manager
		markers [2]*agentapi.Marker
		damaged []int
		names   string
	}{
		{"a wipe, two instances", wipes("Metadata"), [2]*agentapi.Marker{of("i-x"), of("i-y")}, nil, "i-x,i-y"},
		{"a wipe, two disks of one instance", wipes("Metadata"), [2]*agentapi.Marker{of("i-x"), of("i-x")}, nil, "i-x"},
		{"a wipe, a damaged marker", wipes("Metadata"), [2]*agentapi.Marker{}, []int{1}, "damaged-[0-9a-f]{16}"},
		{"a full wipe, a damaged marker and an instance", wipes("Full"), [2]*agentapi.Marker{nil, of("i-y")}, []int{0}, "damaged-[0-9a-f]{16},i-y"},
		{"an install", install, [2]*agentapi.Marker{of("i-x")}, nil, "i-x"},
		{"an install, a damaged marker", install, [2]*agentapi.Marker{}, []int{0}, "damaged-[0-9a-f]{16}"},
		{"a mirror, two instances", mirror, [2]*agentapi.Marker{of("i-x"), of("i-y")}, nil, "i-x,i-y"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, agentapi.Disk{Serial: "A", WWN: "0xa", Marker: c.markers[0]}, agentapi.Disk{Serial: "B", Marker: c.markers[1]})
			for _, i := range c.damaged {
				s.damage(i)
			}
			attempt := func(approved ...string) agentapi.Report {
				m := c.order(t)
				if m.Order.Clean != nil {
					m.Order.Clean.ReleasedInstances = approved
				} else {
					m.Order.Install.ReleasedInstances = approved
				}
				if _, err := s.run(m); err != nil {
					t.Fatal(err)
				}
				return m.Reports()[0]
			}
			refused := func(approved ...string) []string {
				report := attempt(approved...)
				if report.Reason != agent.ReasonDiskOwnedByOther || !s.untouched(0) || !s.untouched(1) {
					t.Fatalf("approved %v: %+v", approved, report)
				}
				named := regexp.MustCompile(`have unreleased owners (\S+): approve`).FindStringSubmatch(report.Message)
				if named == nil {
					t.Fatalf("the message names no owner: %s", report.Message)
				}
				return strings.Split(named[1], ",")
			}
			names := refused("i-z", "damaged-0000000000000000")
			if got := strings.Join(names, ","); !regexp.MustCompile("^" + c.names + "$").MatchString(got) {
				t.Fatalf("named %s, want %s", got, c.names)
			}
			for i := range names {
				if left := refused(append(names[:i:i], names[i+1:]...)...); len(left) != 1 || left[0] != names[i] {
					t.Errorf("without %s: named %v", names[i], left)
				}
			}
			if report := attempt(names...); report.Outcome != agentapi.Succeeded {
				t.Errorf("approved %v: %+v", names, report)
			}
		})
	}
}

// Another disk prevents an install only if it has the complete system of a released instance.
func TestOtherDisksDoNotPreventAnInstall(t *testing.T) {
	for name, other := range map[string]*agentapi.Marker{
		"nothing installed":                   nil,
		"an install that was cut off":         {InstanceID: "other"},
		"an instance that was not released":   {InstanceID: "unknown", Complete: true},
		"a former root disk of this instance": {InstanceID: "i1", Attempt: 1, Complete: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := installOrder(t)
			m.Order.Install.ReleasedInstances = []string{"other"}
			s := newServer(t, agentapi.Disk{Serial: "A"}, agentapi.Disk{Serial: "B", Marker: other})
			if _, err := s.run(m); err != nil {
				t.Fatal(err)
			}
			if reports := m.Reports(); len(reports) != 1 || reports[0].Outcome != agentapi.Succeeded {
				t.Errorf("reports %+v", reports)
			}
		})
	}
}
