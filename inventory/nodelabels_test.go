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
	const zone = "topology.kubernetes.io/zone"
	for name, c := range map[string]struct {
		wanted labels
		node   LabelledNode
		want   LabelChange
		empty  bool
	}{
		"nothing":                 {labels{}, LabelledNode{Labels: labels{"a": "1"}}, LabelChange{}, true},
		"new":                     {labels{"b": "2", "a": "1"}, LabelledNode{Labels: labels{"x": ""}}, LabelChange{Set: labels{"a": "1", "b": "2"}, Written: []string{"a", "b"}, Relist: true}, false},
		"as it should be":         {labels{"a": "1", "b": "1"}, LabelledNode{Labels: labels{"a": "1", "b": "1"}, Written: []string{"b", "a"}}, LabelChange{Written: []string{"a", "b"}}, true},
		"as somebody else set it": {labels{"a": "1"}, LabelledNode{Labels: labels{"a": "1"}}, LabelChange{}, true},
		"changed on the host":     {labels{"a": "2"}, LabelledNode{Labels: labels{"a": "1"}, Written: []string{"a"}}, LabelChange{Set: labels{"a": "2"}, Written: []string{"a"}}, false},
		"changed on the Node":     {labels{"a": "1"}, LabelledNode{Labels: labels{"a": "2"}}, LabelChange{Set: labels{"a": "1"}, Written: []string{"a"}, Relist: true}, false},
		"empty":                   {labels{"a": ""}, LabelledNode{Labels: labels{}}, LabelChange{Set: labels{"a": ""}, Written: []string{"a"}, Relist: true}, false},
		"gone from the host": {labels{"b": "1"}, LabelledNode{Labels: labels{"a": "1", "b": "1"}, Written: []string{"a", "b"}},
			LabelChange{Remove: []string{"a"}, Written: []string{"b"}, Relist: true}, false},
		// Else who sets that label later on sees it taken away.
		"gone from both":               {labels{}, LabelledNode{Written: []string{"a"}}, LabelChange{Relist: true}, false},
		"not on the host, nor Ingot's": {labels{}, LabelledNode{Labels: labels{"a": "1"}, Written: []string{"b"}}, LabelChange{Relist: true}, false},
		"a zone":                       {labels{zone: "r1"}, LabelledNode{}, LabelChange{Set: labels{zone: "r1"}, Written: []string{zone}, Relist: true}, false},
		"Ingot's zone":                 {labels{zone: "r1"}, LabelledNode{Labels: labels{zone: "r0"}, Written: []string{zone}}, LabelChange{Set: labels{zone: "r1"}, Written: []string{zone}}, false},
		"another's zone":               {labels{zone: "r1"}, LabelledNode{Labels: labels{zone: "eu-1"}}, LabelChange{ZoneKept: true}, true},
		"another's zone, as it should": {labels{zone: "r1"}, LabelledNode{Labels: labels{zone: "r1"}}, LabelChange{}, true},
		"Cluster API's":                {labels{"a": "1"}, LabelledNode{Labels: labels{"a": "2"}, Synced: []string{"a"}}, LabelChange{}, true},
		"Cluster API's now":            {labels{"a": "1"}, LabelledNode{Labels: labels{"a": "2"}, Written: []string{"a"}, Synced: []string{"a"}}, LabelChange{Relist: true}, false},
		"Cluster API's now, and gone from the host": {labels{}, LabelledNode{Labels: labels{"a": "2"}, Written: []string{"a"}, Synced: []string{"a"}}, LabelChange{Relist: true}, false},
		"no longer Cluster API's":                   {labels{"a": "1"}, LabelledNode{Labels: labels{}}, LabelChange{Set: labels{"a": "1"}, Written: []string{"a"}, Relist: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := CompareLabels(c.wanted, c.node)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got.IsEmpty() != c.empty {
				t.Errorf("Empty: %v", got.IsEmpty())
			}
		})
	}
}
