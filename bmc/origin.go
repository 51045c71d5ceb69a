// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"bytes"
	"strings"
)

// SystemSwitcher is a Conn whose session serves all systems behind its BMC. A chassis of several
// nodes has one BMC with one session table and one small processor for all of them.
type SystemSwitcher interface {
	// SwitchSystem directs the following calls to the system that another address of the same
	// BMC names. It sends nothing, and changes nothing if it returns an error.
	SwitchSystem(address string) error
}

// originOf returns the part of an address that names the BMC: everything but the path, which names
// one of its systems. It is in lower case, because schemes and host names ignore case.
func originOf(address string) string {
	scheme, rest, found := strings.Cut(address, "://")
	if !found {
		return strings.ToLower(address)
	}
	host, _, _ := strings.Cut(rest, "/")
	return strings.ToLower(scheme + "://" + host)
}

// Origin returns the address without the path; all systems behind one BMC share it.
func (t Target) Origin() string { return originOf(t.Address) }

// equal reports whether a session that was opened for one target serves the other.
func (t Target) equal(other Target) bool {
	return t.Address == other.Address && t.Username == other.Username && t.Password == other.Password &&
		t.InsecureSkipVerify == other.InsecureSkipVerify && t.Fingerprint == other.Fingerprint &&
		bytes.Equal(t.CABundle, other.CABundle)
}

// sameBMC reports whether targets are equal except for the system.
func (t Target) sameBMC(other Target) bool {
	t.Address, other.Address = originOf(t.Address), originOf(other.Address)
	return t.equal(other)
}

// switchTo reports whether the entry's session can serve a target, and switches it to the
// target's system. The entry's lock is held, and both have the same origin.
func (e *entry) switchTo(target Target) bool {
	if !e.target.sameBMC(target) {
		return false
	}
	if e.target.Address == target.Address {
		return true
	}
	switcher, ok := e.conn.(SystemSwitcher)
	return ok && switcher.SwitchSystem(target.Address) == nil
}
