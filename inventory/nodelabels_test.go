// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestNodeLabels(t *testing.T) {
	const zone = "topology.kubernetes.io/zone"
	host := &infrav1.IngotHost{}
	host.Labels = map[string]string{infrav1.RackLabel: "r1", "row": "7", "dc.example/gpu": "a100", "dc.example/disk": "nvme", "sub.dc.example/x": "1", "dc.example.org/y": "2",
		"node-role.kubernetes.io/control-plane": "true", "node-role.kubernetes.io/master": "true", "node-role.kubernetes.io/gpu": ""}
	for name, c := range map[string]struct {
		label  string
		chosen []string
		want   map[string]string
	}{
		"the rack alone":     {"", nil, map[string]string{zone: "r1"}},
		"another label":      {"row", nil, map[string]string{zone: "7"}},
		"a host in no rack":  {"hall", nil, map[string]string{}},
		"a key":              {"", []string{"dc.example/gpu"}, map[string]string{zone: "r1", "dc.example/gpu": "a100"}},
		"a key without more": {"hall", []string{"row"}, map[string]string{"row": "7"}},
		"a domain":           {"hall", []string{"dc.example/*"}, map[string]string{"dc.example/gpu": "a100", "dc.example/disk": "nvme"}},
		"roles":              {"hall", []string{"node-role.kubernetes.io/*"}, map[string]string{"node-role.kubernetes.io/gpu": ""}},
		"what is not there":  {"hall", []string{"dc.example/cpu", "other/*"}, map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := &infrav1.IngotCluster{}
			cluster.Spec.FailureDomainLabel, cluster.Spec.NodeLabels = c.label, c.chosen
			if diff := cmp.Diff(c.want, NodeLabels(host, cluster)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompareLabels(t *testing.T) {
	type labels = map[string]string
	for name, c := range map[string]struct {
		wanted, found labels
		written       []string
		want          LabelChange
	}{
		"nothing":                      {labels{}, labels{"a": "1"}, nil, LabelChange{}},
		"new":                          {labels{"b": "2", "a": "1"}, labels{"x": ""}, nil, LabelChange{Set: labels{"a": "1", "b": "2"}, Written: []string{"a", "b"}}},
		"as it should be":              {labels{"a": "1"}, labels{"a": "1"}, []string{"a"}, LabelChange{Written: []string{"a"}}},
		"as somebody else set it":      {labels{"a": "1"}, labels{"a": "1"}, nil, LabelChange{}},
		"changed on the host":          {labels{"a": "2"}, labels{"a": "1"}, []string{"a"}, LabelChange{Set: labels{"a": "2"}, Written: []string{"a"}}},
		"changed on the Node":          {labels{"a": "1"}, labels{"a": "2"}, nil, LabelChange{Set: labels{"a": "1"}, Written: []string{"a"}}},
		"empty":                        {labels{"a": ""}, labels{}, nil, LabelChange{Set: labels{"a": ""}, Written: []string{"a"}}},
		"gone from the host":           {labels{"b": "1"}, labels{"a": "1", "b": "1"}, []string{"a", "b"}, LabelChange{Remove: []string{"a"}, Written: []string{"b"}}},
		"gone from both":               {labels{}, labels{}, []string{"a"}, LabelChange{}},
		"not on the host, nor Ingot's": {labels{}, labels{"a": "1"}, []string{"b"}, LabelChange{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := CompareLabels(c.wanted, c.found, c.written)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.Empty() != (len(c.want.Set)+len(c.want.Remove) == 0) {
				t.Errorf("Empty: %v", got.Empty())
			}
		})
	}
}

func TestSameSystem(t *testing.T) {
	const uuid, swapped, other = "6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa", "CEF01D6A-272A-3C4F-8E0A-55F6F9A3F3AA", "7b1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
	const makers = "00000000-0000-0000-0000-000000000000"
	machine := System{UUID: uuid, Name: "m1", Addresses: []string{"10.0.0.5"}}
	for name, c := range map[string]struct {
		machine, node System
		uuids         []string
		want          bool
	}{
		"by name":                   {machine, System{UUID: uuid, Name: "m1"}, []string{uuid, other}, true},
		"by address":                {machine, System{UUID: uuid, Name: "node-5", Addresses: []string{"192.0.2.1", "10.0.0.5"}}, []string{uuid}, true},
		"in another byte order":     {machine, System{UUID: swapped, Name: "m1"}, []string{uuid}, true},
		"by UUID alone":             {machine, System{UUID: uuid, Name: "node-5", Addresses: []string{"10.0.0.6"}}, []string{uuid}, false},
		"by name alone":             {machine, System{UUID: other, Name: "m1"}, []string{uuid}, false},
		"a maker's UUID":            {System{UUID: makers, Name: "m1"}, System{UUID: makers, Name: "m1"}, []string{makers}, false},
		"no UUID":                   {System{Name: "m1"}, System{Name: "m1"}, nil, false},
		"two servers with the UUID": {machine, System{UUID: uuid, Name: "m1"}, []string{uuid, swapped}, false},
		"no names":                  {System{UUID: uuid}, System{UUID: uuid}, []string{uuid}, false},
		"empty addresses":           {System{UUID: uuid, Addresses: []string{""}}, System{UUID: uuid, Addresses: []string{""}}, []string{uuid}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SameSystem(c.machine, c.node, c.uuids); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
