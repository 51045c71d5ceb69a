// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"encoding/binary"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// profileHosts is a set of hosts with equal profiles: one of them, their number, and the number of those
// that can be claimed now.
type profileHosts struct {
	Candidate
	total, free int
}

// groupByProfile groups the hosts of a namespace by profile. at has the profile of each candidate, by its
// index. -1: of another namespace. free reports which hosts can be claimed.
func groupByProfile(namespace string, candidates []Candidate, free func(*infrav1.IngotHost) bool, groups []group) (profiles []profileHosts, at []int) {
	profile := newProfile(groups)
	byText := map[string]int{}
	at = make([]int, len(candidates))
	for i, candidate := range candidates {
		if candidate.Host.Namespace != namespace {
			at[i] = -1
			continue
		}
		text := profile.at(candidate)
		l, ok := byText[string(text)]
		if !ok {
			l = len(profiles)
			profiles = append(profiles, profileHosts{Candidate: candidate})
			byText[string(text)] = l
		}
		at[i] = l
		profiles[l].total++
		if free(candidate.Host) {
			profiles[l].free++
		}
	}
	return profiles, at
}

// claimableBut reports whether a host can be claimed and no machine has selected it.
func claimableBut(named map[string]bool) func(*infrav1.IngotHost) bool {
	return func(host *infrav1.IngotHost) bool {
		ok, _ := lifecycle.IsClaimable(host)
		return ok && !named[host.Name]
	}
}

// profile has the properties of hosts on which groups depend. Hosts with equal texts of at suit the same
// groups.
type profile struct {
	keys []string
	// disks has the requirements for root disks.
	disks []*diskRequirement
	// networks has the requirements for interfaces.
	networks []*infrav1.NetworkData
	// trust: a group requires verified boots.
	trust bool
	text  []byte
}

// diskRequirement is a machine's requirement for root disks.
type diskRequirement struct {
	Hints *infrav1.RootDeviceHints
	RAID  *infrav1.SoftwareRAID
}

func newProfile(groups []group) *profile {
	p := &profile{disks: []*diskRequirement{{}}}
	seen := map[string]bool{}
	for i := range groups {
		if c := groups[i].criteria; !seen[groups[i].class] {
			seen[groups[i].class] = true
			p.ask(c)
		}
	}
	slices.Sort(p.keys)
	p.keys = slices.Compact(p.keys)
	return p
}

// ask adds the requirements of one group.
func (p *profile) ask(c *criteria) {
	p.keys = append(p.keys, c.label)
	p.trust = p.trust || c.Cluster.Spec.BootTrust == infrav1.BootTrustVerified
	for _, selector := range []labels.Selector{c.cluster, c.controlPlane, c.machine} {
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			p.keys = append(p.keys, r.Key())
		}
	}
	p.disks = addNew(p.disks, &diskRequirement{c.Machine.Spec.RootDeviceHints, c.Machine.Spec.SoftwareRAID})
	if c.Machine.Spec.NetworkData != nil {
		p.networks = addNew(p.networks, c.Machine.Spec.NetworkData)
	}
}

func addNew[T any](list []*T, one *T) []*T {
	if slices.ContainsFunc(list, func(other *T) bool { return equality.Semantic.DeepEqual(other, one) }) {
		return list
	}
	return append(list, one)
}

// at returns the profile of a host as text, which is valid until the next call.
func (p *profile) at(candidate Candidate) []byte {
	p.text = p.text[:0]
	for _, key := range p.keys {
		value, ok := candidate.Host.Labels[key]
		if !ok {
			p.text = append(p.text, 0)
		}
		p.word(value)
	}
	if p.trust {
		trust, _, _ := lifecycle.BootTrustOf(candidate.Host)
		p.word(string(trust))
	}
	if record := candidate.Host.Spec.Record; record != nil {
		p.text = append(p.text, record.LastClusterName...)
	}
	p.text = append(p.text, 0)
	if candidate.Hardware != nil {
		p.hardware(candidate)
	}
	return p.text
}

// hardware adds the hardware to the text.
func (p *profile) hardware(candidate Candidate) {
	spec := &candidate.Hardware.Spec
	p.word(spec.Architecture)
	p.number(int64(spec.CPU.Cores))
	p.number(inventory.MemoryBytes(*spec))
	for _, data := range p.networks {
		fits := byte(0)
		if networkdata.Fit(data, networkdata.Host{BootMAC: candidate.Host.Spec.BootMACAddress, NICs: spec.NICs}) == nil {
			fits = 1
		}
		p.text = append(p.text, fits)
	}
	for _, wish := range p.disks {
		hints := wish.Hints
		if hints == nil {
			hints = candidate.Host.Spec.RootDeviceHints
		}
		disks, err := inventory.SelectRootDisks(spec.Disks, hints, wish.RAID)
		if err != nil {
			p.number(-1)
			continue
		}
		p.number(inventory.RootBytes(disks))
	}
}

func (p *profile) word(text string) { p.text = append(append(p.text, text...), 1) }

func (p *profile) number(n int64) { p.text = binary.LittleEndian.AppendUint64(p.text, uint64(n)) }
