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

// maxNICWarnings limits the ethernets that have their own warning.
const maxNICWarnings = 4

// nicFit records how networkData matches the interfaces of hosts. The zero value is of no hosts.
type nicFit struct {
	hosts int
	// without counts, by ethernet, the hosts without an interface for it.
	without map[int]int
	// nearest is the host with interfaces for the most ethernets, the first by name. lacks are the
	// ethernets for which it has none.
	nearest string
	lacks   []networkdata.Misfit
}

func (f *nicFit) add(host string, lacks []networkdata.Misfit) {
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

// valued is a field with its value.
type valued struct {
	path  *field.Path
	value string
}

func (v valued) String() string { return v.path.String() + ": " + v.value }

// missing returns the ethernets for which no host has an interface.
func (f *nicFit) missing() []int {
	var all []int
	for _, misfit := range f.lacks {
		if f.without[misfit.Ethernet] == f.hosts {
			all = append(all, misfit.Ethernet)
		}
	}
	return all
}

// warn warns about each ethernet, except the settled ones, for which no host has an interface, or
// that no host has interfaces for all of them. path is the path of ethernets.
func (f *nicFit) warn(path *field.Path, data *v1beta2.NetworkData, settled map[int]bool, warn func(where fmt.Stringer, format string, arguments ...any)) {
	if len(f.lacks) == 0 {
		return
	}
	var count int
	var more []string
	for _, misfit := range f.lacks {
		switch {
		case f.without[misfit.Ethernet] < f.hosts || settled[misfit.Ethernet]:
		case count == maxNICWarnings:
			more = append(more, misfit.Name)
		default:
			count++
			warn(valued{path.Index(misfit.Ethernet).Child("nic"), formatSelector(data.Ethernets[misfit.Ethernet].NIC)},
				"an interface for %s (nearest: IngotHost %s: %s)", misfit.Name, f.nearest, inventory.Truncate(misfit.Why, maxDetail))
		}
	}
	switch {
	case len(more) > 0:
		warn(path, "an interface for %s", strings.Join(more, ", "))
	case count == 0 && len(settled) == 0:
		warn(path, "an interface for every ethernet, though other hosts have one for each (nearest: IngotHost %s: %s)",
			f.nearest, inventory.Truncate(f.lacks[0].Error(), maxDetail))
	}
}

// formatSelector formats a selector on one line, as valid YAML.
func formatSelector(nic v1beta2.NICSelector) string {
	text, err := json.Marshal(nic)
	if err != nil {
		return fmt.Sprintf("%+v", nic)
	}
	return string(text)
}
