// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// This file finds the Node of a machine whose kubelet was not told its provider ID.

// System is what a Node and a machine tell of the server that they are.
type System struct {
	// UUID as firmware tells it.
	UUID string
	// Name of the host in the network, and Addresses.
	Name      string
	Addresses []string
}

// NamelessNode is a Node without a provider ID.
type NamelessNode struct {
	System
	// Heard is when its kubelet reported last; zero: its cluster does not hear it.
	Heard time.Time
}

// InstalledSystem is the machine that looks for its Node.
type InstalledSystem struct {
	System
	// Since when it is installed: a Node that was not heard since is of an earlier life of
	// the server, and provider IDs are for ever.
	Since time.Time
}

// WhichNode says which of the Nodes without a provider ID is the machine's, by its
// place; -1: none is for certain. It is the one of the machine's UUID, where
// that tells one server from another and is that of no other of the inventory's uuids,
// where the name or an address agrees as well, and where the Node lives. Where none is and a
// Node has the UUID, or agrees otherwise and its UUID cannot be known for the machine's, why
// says what does not fit.
func WhichNode(machine InstalledSystem, nodes []NamelessNode, uuids []string) (at int, why string) {
	var fit []int
	var misfits []string
	for i, node := range nodes {
		switch {
		case likeUUIDs(machine.UUID, node.UUID) == unknowable:
			// One that is not heard may be of an earlier life: if it lives it will be heard.
			if machine.Alike(node.System) && machine.hears(node) {
				misfits = append(misfits, fmt.Sprintf("Node %s has the machine's name or an address of it, but %s: tell the kubelet its provider ID by the template", node.Name, whyUnknowable(machine.UUID, node.UUID)))
			}
		case likeUUIDs(machine.UUID, node.UUID) != same:
		case !machine.Alike(node.System):
			misfits = append(misfits, fmt.Sprintf("Node %s has neither the machine's name nor an address of it", node.Name))
		case !machine.hears(node):
			misfits = append(misfits, fmt.Sprintf("Node %s was not heard since the system was installed, by its kubelet's clock and Ingot's: if it is left over from an earlier life of the server, delete it; "+
				"if it runs, the server's clock is behind, and Ingot takes the Node once it has passed that moment", node.Name))
		default:
			fit = append(fit, i)
		}
	}
	slices.Sort(misfits) // the same words for the same Nodes, in whatever order they come
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

// hears says whether the Node's kubelet has reported since the machine is installed.
func (s InstalledSystem) hears(node NamelessNode) bool {
	return !node.Heard.IsZero() && !node.Heard.Before(s.Since)
}

// whyUnknowable says whose UUID tells nothing: that of the machine's server, or the Node's.
func whyUnknowable(machine, node string) string {
	if UUIDBytes(machine) == nil {
		return "its server has no UUID of its own, by its inspection " + orNone(machine)
	}
	return fmt.Sprintf("tells no UUID of its own, %s, where its server has %s", orNone(node), orNone(machine))
}

// Alike says whether two systems have the name or an address in common.
func (s System) Alike(other System) bool {
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
