// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"testing"
	"time"
)

func TestWhichNode(t *testing.T) {
	const uuid, swapped, other = "6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa", "CEF01D6A-272A-3C4F-8E0A-55F6F9A3F3AA", "7b1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
	const makers = "00000000-0000-0000-0000-000000000000"
	installed := time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)
	lives := func(uuid, name string, addresses ...string) UnmatchedNode {
		return UnmatchedNode{System: System{UUID: uuid, Name: name, Addresses: addresses}, Heard: installed}
	}
	heard := func(node UnmatchedNode, at time.Time) UnmatchedNode { node.Heard = at; return node }
	is := func(uuid, name string, addresses ...string) InstalledSystem {
		return InstalledSystem{System: System{UUID: uuid, Name: name, Addresses: addresses}, Since: installed}
	}
	machine := is(uuid, "m1", "10.0.0.5")
	type nodes = []UnmatchedNode
	for name, c := range map[string]struct {
		machine InstalledSystem
		nodes   nodes
		uuids   []string
		want    int
		why     string
	}{
		"no Node":                                {machine, nil, []string{uuid}, -1, ""},
		"by name":                                {machine, nodes{lives(other, "m2"), lives(uuid, "m1")}, []string{uuid, other}, 1, ""},
		"by address":                             {machine, nodes{lives(uuid, "node-5", "192.0.2.1", "10.0.0.5")}, []string{uuid}, 0, ""},
		"in another byte order":                  {is(swapped, "m1"), nodes{lives(uuid, "m1")}, []string{uuid}, 0, ""},
		"not inspected":                          {machine, nodes{lives(uuid, "m1")}, nil, 0, ""},
		"by UUID alone":                          {machine, nodes{lives(uuid, "node-5", "10.0.0.6")}, []string{uuid}, -1, "Node node-5 has neither"},
		"by name alone":                          {machine, nodes{lives(other, "m1")}, []string{uuid}, -1, ""},
		"a maker's UUID":                         {is(makers, "m1"), nodes{lives(makers, "m1")}, []string{makers}, -1, "Node m1 has the machine's name or an address of it, but its server has no UUID of its own, by its inspection " + makers + ": tell"},
		"no UUID":                                {is("", "m1"), nodes{lives("", "m1")}, nil, -1, "its server has no UUID of its own, by its inspection (none): tell the kubelet its provider ID by the template"},
		"no UUID, by address":                    {is("", "m1", "10.0.0.5"), nodes{lives(other, "n2", "10.0.0.6"), lives(uuid, "n1", "10.0.0.5")}, []string{uuid}, -1, "Node n1 has"},
		"no UUID, of others":                     {is("", "m1", "10.0.0.5"), nodes{lives(other, "n2", "10.0.0.6")}, nil, -1, ""},
		"no UUID, two alike":                     {is(makers, "m1", "10.0.0.5"), nodes{lives(makers, "n2", "10.0.0.5"), lives(makers, "m1")}, []string{makers, makers}, -1, "by the template; Node n2 has"},
		"no UUID, of an earlier life":            {is("", "m1"), nodes{heard(lives("", "m1"), installed.Add(-time.Second))}, nil, -1, ""},
		"no UUID of the Node's":                  {machine, nodes{lives("", "m1")}, []string{uuid}, -1, "Node m1 has the machine's name or an address of it, but tells no UUID of its own, (none), where its server has " + uuid + ": tell the kubelet"},
		"no UUID of one Node's, another fits":    {machine, nodes{lives(makers, "m2", "10.0.0.5"), lives(uuid, "m1")}, []string{uuid}, 1, ""},
		"two servers with the UUID":              {machine, nodes{lives(uuid, "m1")}, []string{uuid, swapped}, -1, "2 servers"},
		"no names":                               {is(uuid, ""), nodes{lives(uuid, "")}, []string{uuid}, -1, "neither"},
		"empty addresses":                        {is(uuid, "m1", ""), nodes{lives(uuid, "m2", "")}, []string{uuid}, -1, "neither"},
		"two Nodes":                              {machine, nodes{lives(uuid, "m2", "10.0.0.5"), lives(uuid, "m1")}, []string{uuid}, -1, "Nodes m1 and m2 all fit"},
		"of an earlier life":                     {machine, nodes{heard(lives(uuid, "m0", "10.0.0.5"), installed.Add(-time.Second))}, []string{uuid}, -1, "Node m0 was not heard"},
		"not heard, installed nobody knows when": {InstalledSystem{System: machine.System}, nodes{heard(lives(uuid, "m1"), time.Time{})}, []string{uuid}, -1, "Node m1 was not heard"},
		"none of two":                            {machine, nodes{lives(uuid, "n2"), lives(uuid, "n1")}, []string{uuid}, -1, "Node n1 has neither the machine's name nor an address of it; Node n2 has"},
		"not heard":                              {machine, nodes{heard(lives(uuid, "m1"), time.Time{})}, []string{uuid}, -1, "Node m1 was not heard"},
		"beside an earlier life's":               {machine, nodes{heard(lives(uuid, "m0", "10.0.0.5"), time.Time{}), lives(uuid, "m1")}, []string{uuid}, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := MatchNode(c.machine, c.nodes, c.uuids)
			if got != c.want || (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("%d, %q; want %d, %q", got, why, c.want, c.why)
			}
		})
	}
}
