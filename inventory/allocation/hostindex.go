// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"slices"
	"sync"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// Shelf holds the hosts of one namespace, and keeps them sorted by how they look to
// whoever asked lately: a change of one host moves that one, and a plan counts looks
// instead of hosts. What it says is what the same hosts in Stock.Candidates would say.
// The zero value is an empty shelf; it may be used by several goroutines at once.
//
// The objects that are put on it must not be changed any more, as those of an informer.
type Shelf struct {
	mu       sync.Mutex
	hosts    map[string]*shelved
	hardware map[string]*infrav1.IngotHardware
	// claimed are the hosts with a claim, by the Cluster that it names.
	claimed map[string]map[string]*infrav1.IngotHost
	// views are what was looked at, the latest last.
	views []*view
	// free are the hosts that can be claimed by themselves, by name; nil: to be listed
	// again. A list that was given out is not changed.
	free []string
}

// Frozen is a shelf with the hosts that could be claimed at one moment. Who chose a host
// is to be read after that moment: a host that is claimed meanwhile counts as free still,
// and is named by its machine. On the living shelf it would count as neither free nor, of
// machines read before, as anybody's.
type Frozen struct {
	shelf *Shelf
	free  []string
}

// Freeze notes which hosts can be claimed now.
func (s *Shelf) Freeze() *Frozen {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == nil {
		s.free = make([]string, 0, len(s.hosts))
		for name, h := range s.hosts {
			if h.claimable {
				s.free = append(s.free, name)
			}
		}
	}
	return &Frozen{shelf: s, free: s.free}
}

// maxViews bounds the looks that are kept sorted: as many different sets of things that
// Clusters of one namespace ask for at a time.
const maxViews = 8

// shelved is one host.
type shelved struct {
	Candidate
	// claimable by itself: some machine may have chosen it all the same.
	claimable bool
}

// view is the shelf as one look sees it.
type view struct {
	name string
	look *look
	rows map[string]*row
	// of is the row of each host.
	of map[string]*row
}

// row are the hosts of one look. Its specimen may have gone: it looked the same.
type row struct {
	text string
	looked
	// place among the rows that are being listed.
	place int
}

// Put puts a host on the shelf, in place of the one of that name.
func (s *Shelf) Put(host *infrav1.IngotHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(host.Name)
	s.free = nil
	if s.hosts == nil {
		s.hosts = map[string]*shelved{}
	}
	ok, _ := lifecycle.Claimable(host)
	s.hosts[host.Name] = &shelved{Candidate: Candidate{Host: host, Hardware: s.hardware[host.Name]}, claimable: ok}
	s.place(host.Name)
	if claim := host.Spec.Claim; claim != nil {
		if s.claimed == nil {
			s.claimed = map[string]map[string]*infrav1.IngotHost{}
		}
		if s.claimed[claim.ClusterName] == nil {
			s.claimed[claim.ClusterName] = map[string]*infrav1.IngotHost{}
		}
		s.claimed[claim.ClusterName][host.Name] = host
	}
}

// Remove takes a host off the shelf.
func (s *Shelf) Remove(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(host)
}

// PutHardware puts down the facts of the host of the same name, which may come later.
func (s *Shelf) PutHardware(facts *infrav1.IngotHardware) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hardware == nil {
		s.hardware = map[string]*infrav1.IngotHardware{}
	}
	s.hardware[facts.Name] = facts
	s.know(facts.Name, facts)
}

// RemoveHardware forgets the facts of a host.
func (s *Shelf) RemoveHardware(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.hardware, host)
	s.know(host, nil)
}

// know gives a host other facts.
func (s *Shelf) know(host string, facts *infrav1.IngotHardware) {
	if h := s.hosts[host]; h != nil {
		s.leave(host)
		h.Hardware = facts
		s.place(host)
	}
}

// take removes a host wherever it is.
func (s *Shelf) take(host string) {
	h := s.hosts[host]
	if h == nil {
		return
	}
	s.leave(host)
	s.free = nil
	delete(s.hosts, host)
	if claim := h.Host.Spec.Claim; claim != nil {
		delete(s.claimed[claim.ClusterName], host)
		if len(s.claimed[claim.ClusterName]) == 0 {
			delete(s.claimed, claim.ClusterName)
		}
	}
}

// place sorts a host into all views, leave takes it out of them.
func (s *Shelf) place(host string) {
	for _, v := range s.views {
		v.add(s.hosts[host])
	}
}

func (s *Shelf) leave(host string) {
	for _, v := range s.views {
		v.remove(s.hosts[host])
	}
}

func (v *view) add(h *shelved) {
	text := v.look.at(h.Candidate)
	r := v.rows[string(text)]
	if r == nil {
		r = &row{text: string(text), looked: looked{Candidate: h.Candidate}}
		v.rows[r.text] = r
	}
	r.total++
	v.of[h.Host.Name] = r
}

func (v *view) remove(h *shelved) {
	r := v.of[h.Host.Name]
	delete(v.of, h.Host.Name)
	if r.total--; r.total == 0 {
		delete(v.rows, r.text)
	}
}

// claimedBy are the hosts whose claims name the Cluster, by their names.
func (s *Shelf) claimedBy(clusterName string) []*infrav1.IngotHost {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hosts []*infrav1.IngotHost
	for _, host := range s.claimed[clusterName] {
		hosts = append(hosts, host)
	}
	slices.SortFunc(hosts, byName)
	return hosts
}

// sort is sortHosts of the hosts on the shelf, of which those are free that were at that
// moment, and that no machine has chosen.
func (f *Frozen) sort(groups []group, named map[string]bool) ([]looked, error) {
	s := f.shelf
	look := newLook(groups)
	name, err := look.name()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view(name, look)
	looks := make([]looked, 0, len(v.rows))
	for _, r := range v.rows {
		r.place = len(looks)
		looks = append(looks, r.looked)
	}
	for _, host := range f.free {
		if r := v.of[host]; r != nil && !named[host] {
			looks[r.place].free++
		}
	}
	return looks, nil
}

// view is what a look of that name sees: as it is kept, or made.
func (s *Shelf) view(name string, look *look) *view {
	at := slices.IndexFunc(s.views, func(v *view) bool { return v.name == name })
	if at >= 0 {
		v := s.views[at]
		s.views = append(slices.Delete(s.views, at, at+1), v)
		return v
	}
	v := &view{name: name, look: look, rows: map[string]*row{}, of: make(map[string]*row, len(s.hosts))}
	for _, h := range s.hosts {
		v.add(h)
	}
	if len(s.views) >= maxViews {
		s.views = slices.Delete(s.views, 0, 1)
	}
	s.views = append(s.views, v)
	return v
}
