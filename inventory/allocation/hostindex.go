// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"slices"
	"strings"
	"sync"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// maxSorted limits the sets of groups by which a HostIndex keeps its hosts sorted.
const maxSorted = 8

// HostIndex has the hosts of one namespace at one moment, sorted by the groups of plans. It is
// safe for concurrent use.
type HostIndex struct {
	namespace  string
	candidates []Candidate
	// claimable has the position of each claimable host among the candidates, by its name.
	claimable map[string]int

	mu sync.Mutex
	// sorted is by the classes of the groups.
	sorted map[string]profiledHosts
}

// profiledHosts is what groupByProfile returns.
type profiledHosts struct {
	profiles []profileHosts
	at       []int
}

// NewHostIndex indexes the hosts of a namespace. The objects must not change afterwards.
func NewHostIndex(namespace string, candidates []Candidate) *HostIndex {
	x := &HostIndex{namespace: namespace, candidates: candidates, claimable: map[string]int{}, sorted: map[string]profiledHosts{}}
	for i, candidate := range candidates {
		if ok, _ := lifecycle.IsClaimable(candidate.Host); ok && candidate.Host.Namespace == namespace {
			x.claimable[candidate.Host.Name] = i
		}
	}
	return x
}

// sort returns the hosts by their profiles. Hosts in chosen are not free.
func (x *HostIndex) sort(groups []group, chosen map[string]bool) []profileHosts {
	var classes []string
	for i := range groups {
		classes = append(classes, groups[i].class)
	}
	slices.Sort(classes)
	key := strings.Join(slices.Compact(classes), "\x00")
	x.mu.Lock()
	defer x.mu.Unlock()
	sorted, ok := x.sorted[key]
	if !ok {
		sorted.profiles, sorted.at = groupByProfile(x.namespace, x.candidates, func(host *infrav1.IngotHost) bool {
			_, ok := x.claimable[host.Name]
			return ok
		}, groups)
		if len(x.sorted) >= maxSorted {
			clear(x.sorted)
		}
		x.sorted[key] = sorted
	}
	profiles := slices.Clone(sorted.profiles)
	for host := range chosen {
		if i, ok := x.claimable[host]; ok {
			profiles[sorted.at[i]].free--
		}
	}
	return profiles
}
