// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// looked is a number of hosts that look the same: a specimen, how many there are, and
// how many of them can be claimed now.
type looked struct {
	Candidate
	total, free int
}

// sortHosts sorts the hosts of a namespace by how they look to the groups. at is the look
// of each candidate, by its place; -1: of another namespace. free says which can be
// claimed.
func sortHosts(namespace string, candidates []Candidate, free func(*infrav1.IngotHost) bool, groups []group) (looks []looked, at []int) {
	look := newLook(groups)
	byText := map[string]int{}
	at = make([]int, len(candidates))
	for i, candidate := range candidates {
		if candidate.Host.Namespace != namespace {
			at[i] = -1
			continue
		}
		text := look.at(candidate)
		l, ok := byText[string(text)]
		if !ok {
			l = len(looks)
			looks = append(looks, looked{Candidate: candidate})
			byText[string(text)] = l
		}
		at[i] = l
		looks[l].total++
		if free(candidate.Host) {
			looks[l].free++
		}
	}
	return looks, at
}

// claimableBut says that a host can be claimed, and none of the machines has chosen it.
func claimableBut(named map[string]bool) func(*infrav1.IngotHost) bool {
	return func(host *infrav1.IngotHost) bool {
		ok, _ := lifecycle.Claimable(host)
		return ok && !named[host.Name]
	}
}

// look is all that groups see of a host: what they do not ask for is not in it.
type look struct {
	keys []string
	// disks are what is asked of those to install to.
	disks []*diskWish
	// networks are what is asked of the interfaces.
	networks []*infrav1.NetworkData
	// trust: a group demands verified boots.
	trust bool
	text  []byte
}

// diskWish is what a machine says of the disks to install to.
type diskWish struct {
	Hints *infrav1.RootDeviceHints
	RAID  *infrav1.SoftwareRAID
}

func newLook(groups []group) *look {
	l := &look{disks: []*diskWish{{}}}
	seen := map[string]bool{}
	for i := range groups {
		if c := groups[i].criteria; !seen[groups[i].class] {
			seen[groups[i].class] = true
			l.ask(c)
		}
	}
	slices.Sort(l.keys)
	l.keys = slices.Compact(l.keys)
	byText(l.disks)
	byText(l.networks)
	return l
}

// byText brings what is asked for into an order that does not depend on who asks first:
// the same questions are one view of a shelf.
func byText[T any](list []T) {
	text := func(one T) string {
		out, _ := json.Marshal(one) // where it fails, name does too
		return string(out)
	}
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(text(a), text(b)) })
}

// ask adds what one group sees.
func (l *look) ask(c *criteria) {
	l.keys = append(l.keys, c.label)
	l.trust = l.trust || c.Cluster.Spec.BootTrust == infrav1.BootTrustVerified
	for _, selector := range []labels.Selector{c.cluster, c.controlPlane, c.machine} {
		requirements, _ := selector.Requirements()
		for _, r := range requirements {
			l.keys = append(l.keys, r.Key())
		}
	}
	l.disks = addNew(l.disks, &diskWish{c.Machine.Spec.RootDeviceHints, c.Machine.Spec.SoftwareRAID})
	if c.Machine.Spec.NetworkData != nil {
		l.networks = addNew(l.networks, c.Machine.Spec.NetworkData)
	}
}

func addNew[T any](list []*T, one *T) []*T {
	if slices.ContainsFunc(list, func(other *T) bool { return equality.Semantic.DeepEqual(other, one) }) {
		return list
	}
	return append(list, one)
}

// name is the same for looks that see the same.
func (l *look) name() (string, error) {
	asked, err := json.Marshal([]any{l.disks, l.networks, l.trust})
	if err != nil {
		return "", fmt.Errorf("write down what is asked of hosts: %w", err)
	}
	return strings.Join(l.keys, "\x00") + "\x00" + string(asked), nil
}

// at writes down what is seen of a host; the text is good until the next.
func (l *look) at(candidate Candidate) []byte {
	l.text = l.text[:0]
	for _, key := range l.keys {
		value, ok := candidate.Host.Labels[key]
		if !ok {
			l.text = append(l.text, 0)
		}
		l.word(value)
	}
	if l.trust {
		trust, _, _ := lifecycle.BootTrustOf(candidate.Host)
		l.word(string(trust))
	}
	if record := candidate.Host.Spec.Record; record != nil {
		l.text = append(l.text, record.LastClusterName...)
	}
	l.text = append(l.text, 0)
	if candidate.Hardware != nil {
		l.hardware(candidate)
	}
	return l.text
}

// hardware writes down what is built in.
func (l *look) hardware(candidate Candidate) {
	spec := &candidate.Hardware.Spec
	l.word(spec.Architecture)
	l.number(int64(spec.CPU.Cores))
	l.number(inventory.MemoryGiB(spec.MemoryBytes))
	for _, data := range l.networks {
		fits := byte(0)
		if networkdata.Fit(data, networkdata.Host{BootMAC: candidate.Host.Spec.BootMACAddress, NICs: spec.NICs}) == nil {
			fits = 1
		}
		l.text = append(l.text, fits)
	}
	for _, wish := range l.disks {
		hints := wish.Hints
		if hints == nil {
			hints = candidate.Host.Spec.RootDeviceHints
		}
		disks, err := inventory.SelectRootDisks(spec.Disks, hints, wish.RAID)
		if err != nil {
			l.number(-1)
			continue
		}
		l.number(inventory.RootBytes(disks))
	}
}

func (l *look) word(text string) { l.text = append(append(l.text, text...), 1) }

func (l *look) number(n int64) { l.text = binary.LittleEndian.AppendUint64(l.text, uint64(n)) }
