// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import "strings"

// Switcher is a Conn whose session serves all systems behind its BMC: a chassis of
// several nodes has one BMC, one table of sessions and one small processor for them.
type Switcher interface {
	// Switch has the calls that follow go to the system that another address of the
	// same BMC names. It sends nothing; an error leaves all as it was.
	Switch(address string) error
}

// placeOf is what of an address names the BMC: all but the path, which names one of
// its systems; in lower case, since schemes and host names do not differ in that.
func placeOf(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return strings.ToLower(address)
	}
	host, _, _ := strings.Cut(rest, "/")
	return strings.ToLower(scheme + "://" + host)
}

// Place names the target's BMC: the address without the path, by which the systems behind
// one BMC differ.
func (t Target) Place() string { return placeOf(t.Address) }

// sameBMC is equal for targets that differ in the system at most.
func (t Target) sameBMC(other Target) bool {
	t.Address, other.Address = placeOf(t.Address), placeOf(other.Address)
	return t.equal(other)
}

// serves says whether the entry's session is for a target, and has it serve the
// target's system. The entry's lock is held, and its place is the target's.
func (e *entry) serves(target Target) bool {
	if !e.target.sameBMC(target) {
		return false
	}
	if e.target.Address == target.Address {
		return true
	}
	switcher, can := e.conn.(Switcher)
	return can && switcher.Switch(target.Address) == nil
}
