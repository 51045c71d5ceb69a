// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// maxTold bounds the ethernets that have a warning of their own.
const maxTold = 4

// fitting is how networkData fits the interfaces of hosts. The zero value is of none.
type fitting struct {
	hosts int
	// without counts, by ethernet, the hosts that have no interface for it.
	without map[int]int
	// nearest is the host that has one for the most, and of such the first by name; lacks
	// is what it has none for.
	nearest string
	lacks   []networkdata.Misfit
}

func (f *fitting) add(host string, lacks []networkdata.Misfit) {
	f.hosts++
	for _, misfit := range lacks {
		if f.without == nil {
			f.without = map[int]int{}
		}
		f.without[misfit.Ethernet]++
	}
	if f.nearest == "" || cmp.Or(cmp.Compare(len(lacks), len(f.lacks)), strings.Compare(host, f.nearest)) < 0 {
		f.nearest, f.lacks = host, lacks
	}
}

// valued is a field with its value, for a warning.
type valued struct {
	path  *field.Path
	value string
}

func (v valued) String() string { return v.path.String() + ": " + v.value }

// missing are the ethernets that no host has an interface for.
func (f *fitting) missing() []int {
	var all []int
	for _, misfit := range f.lacks { // what none has the nearest has not either
		if f.without[misfit.Ethernet] == f.hosts {
			all = append(all, misfit.Ethernet)
		}
	}
	return all
}

// tell warns of each ethernet that no host has an interface for, but for those settled
// already, or that none has one for all of them. path leads to ethernets.
func (f *fitting) tell(path *field.Path, data *v1beta2.NetworkData, settled map[int]bool, warn func(where fmt.Stringer, format string, arguments ...any)) {
	if len(f.lacks) == 0 {
		return
	}
	var told int
	var more []string
	for _, misfit := range f.lacks {
		switch {
		case f.without[misfit.Ethernet] < f.hosts || settled[misfit.Ethernet]:
		case told == maxTold:
			more = append(more, misfit.Name)
		default:
			told++
			warn(valued{path.Index(misfit.Ethernet).Child("nic"), selected(data.Ethernets[misfit.Ethernet].NIC)},
				"an interface for %s (IngotHost %s: %s)", misfit.Name, f.nearest, inventory.Truncate(misfit.Why, maxLack))
		}
	}
	switch {
	case len(more) > 0:
		warn(path, "an interface for %s either", strings.Join(more, ", "))
	case told == 0 && len(settled) == 0:
		warn(path, "an interface for each, though each has one on some host (IngotHost %s: %s)",
			f.nearest, inventory.Truncate(f.lacks[0].Error(), maxLack))
	}
}

// selected is a selector in one line, as YAML takes it.
func selected(nic v1beta2.NICSelector) string {
	text, err := json.Marshal(nic)
	if err != nil {
		return fmt.Sprintf("%+v", nic)
	}
	return string(text)
}
