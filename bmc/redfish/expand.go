// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// expandMembers asks for the members of a collection in the answer (DSP0266, expand query
// parameter).
const expandMembers = "?$expand=.($levels=1)"

// resource is a member of a collection.
type resource struct {
	path string
	body []byte
	// from is the path of the answer that it came in.
	from string
}

// into reads the member; what it does not understand is left out, see decode.
func (r resource) into(v any) error { return decode(r.body, v) }

// resources reads all members of a collection, in the order of their paths: in one answer
// where the BMC offers that and does it right, else one by one. whole is false where the BMC
// lists a member and does not show it.
func (c *conn) resources(collection string, limit int) (all []resource, whole bool, _ error) {
	if all, ok, err := c.expanded(collection, limit); ok || err != nil {
		return all, ok, err
	}
	paths, err := c.membersUpTo(collection, limit)
	if err != nil {
		return nil, false, err
	}
	for _, path := range paths {
		body, err := c.read(path)
		if err != nil {
			if err := optional(err); err != nil {
				return nil, false, err
			}
			continue
		}
		all = append(all, resource{path: path, body: body, from: path})
	}
	return all, len(all) == len(paths), nil
}

// expanded reads a collection with its members. ok is false where the BMC does not offer it,
// declines, or does not do it right: it leaves members out, or shows links. It is false too
// where the answer did not come in the time of an earlier try: members alone are smaller.
func (c *conn) expanded(collection string, limit int) (all []resource, ok bool, _ error) {
	if e := c.root.Features.Expand; !e.All && !e.NoLinks || strings.Contains(collection, "?") {
		return nil, false, nil
	}
	from, count := collection+expandMembers, 0
	for page := 0; from != ""; page++ {
		if r := c.reading; r != nil && r.try > 1 && r.answers[from].try == 0 {
			return nil, false, nil
		}
		var e expandedResource
		if err := c.getLarge(from, &e); err != nil {
			return nil, false, untold(err)
		}
		if count = max(count, e.Count); page > limit || len(all)+len(e.Members) > limit {
			return nil, false, nil // the other way tells of the limit
		}
		for _, body := range e.Members {
			var l link
			var fields map[string]json.RawMessage
			if decode(body, &l) != nil || json.Unmarshal(body, &fields) != nil || l.ID == "" || len(fields) < 2 {
				return nil, false, nil
			}
			all = append(all, resource{path: l.ID, body: body, from: from})
		}
		from = e.Next
	}
	slices.SortFunc(all, func(a, b resource) int { return cmp.Compare(a.path, b.path) })
	all = slices.CompactFunc(all, func(a, b resource) bool { return a.path == b.path })
	return all, len(all) == count, nil
}
