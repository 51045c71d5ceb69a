// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file finds the Node of a machine whose kubelet has no provider ID.

// System identifies the server of a Node or a machine.
type System struct {
	// UUID as firmware reports it.
	UUID string
	// Name of the host in the network, and Addresses.
	Name      string
	Addresses []string
}

// UnmatchedNode is a Node without a provider ID.
type UnmatchedNode struct {
	System
	// Heard is when its kubelet last reported. Zero: it does not report.
	Heard time.Time
}

// InstalledSystem is a machine without a Node.
type InstalledSystem struct {
	System
	// Since is when it was installed. A Node that has not reported since then is of an earlier
	// system of the server, and a provider ID cannot be changed.
	Since time.Time
}

// MatchNode returns the index of the machine's Node among the Nodes without a provider ID. -1:
// no Node is certain, and why explains that if one comes close. The Node must have:
//   - the machine's UUID, which must be a real one and unique among uuids of the inventory;
//   - the machine's name or one of its addresses;
//   - a kubelet that has reported since the install.
func MatchNode(machine InstalledSystem, nodes []UnmatchedNode, uuids []string) (at int, why string) {
	var fit []int
	var misfits []string
	for i, node := range nodes {
		switch {
		case likeUUIDs(machine.UUID, node.UUID) == unknowable:
			// A Node that does not report may be of an earlier system.
			if machine.SharesNameOrAddress(node.System) && machine.hears(node) {
				misfits = append(misfits, fmt.Sprintf("Node %s has the machine's name or an address of it, but %s: tell the kubelet its provider ID by the template", node.Name, whyUnknowable(machine.UUID, node.UUID)))
			}
		case likeUUIDs(machine.UUID, node.UUID) != same:
		case !machine.SharesNameOrAddress(node.System):
			misfits = append(misfits, fmt.Sprintf("Node %s has neither the machine's name nor an address of it", node.Name))
		case !machine.hears(node):
			misfits = append(misfits, fmt.Sprintf("Node %s was not heard since the system was installed, by its kubelet's clock and Ingot's: if it is left over from an earlier life of the server, delete it; "+
				"if it runs, the server's clock is behind, and Ingot takes the Node once it has passed that moment", node.Name))
		default:
			fit = append(fit, i)
		}
	}
	slices.Sort(misfits) // the text must not depend on the order of the Nodes
	switch count := countUUID(machine.UUID, uuids); {
	case len(fit)+len(misfits) == 0:
		return -1, ""
	case count > 1:
		return -1, fmt.Sprintf("%d servers of the inventory have the UUID %s", count, machine.UUID)
	case len(fit) == 0:
		return -1, strings.Join(misfits, "; ")
	case len(fit) > 1:
		names := make([]string, 0, len(fit))
		for _, i := range fit {
			names = append(names, nodes[i].Name)
		}
		return -1, fmt.Sprintf("Nodes %s all fit", strings.Join(slices.Sorted(slices.Values(names)), " and "))
	}
	return fit[0], ""
}

// hears reports whether the Node's kubelet has reported since the install.
func (s InstalledSystem) hears(node UnmatchedNode) bool {
	return !node.Heard.IsZero() && !node.Heard.Before(s.Since)
}

// whyUnknowable describes which UUID is not a real one: the server's or the Node's.
func whyUnknowable(machine, node string) string {
	if UUIDBytes(machine) == nil {
		return "its server has no UUID of its own, by its inspection " + orNone(machine)
	}
	return fmt.Sprintf("tells no UUID of its own, %s, where its server has %s", orNone(node), orNone(machine))
}

// SharesNameOrAddress reports whether two systems have the name or an address in common.
func (s System) SharesNameOrAddress(other System) bool {
	return s.Name != "" && s.Name == other.Name ||
		slices.ContainsFunc(other.Addresses, func(a string) bool { return a != "" && slices.Contains(s.Addresses, a) })
}

func countUUID(uuid string, uuids []string) int {
	count := 0
	for _, other := range uuids {
		if likeUUIDs(uuid, other) == same {
			count++
		}
	}
	return count
}
