// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// maxShown is how many systems an error names.
const maxShown = 8

// systems lists the systems of the BMC.
func (c *conn) systems() ([]string, error) {
	path := c.root.Systems.ID
	if path == "" {
		return nil, fmt.Errorf("find system: %w: the service root has no Systems", bmc.ErrProtocol)
	}
	members, err := c.members(path)
	if err != nil {
		return nil, fmt.Errorf("find system: %w", err)
	}
	return members, nil
}

// onlySystem finds the system where the address names none.
func (c *conn) onlySystem() (string, error) {
	members, err := c.systems()
	switch {
	case err != nil:
		return "", err
	case len(members) == 1:
		return members[0], nil
	case len(members) == 0:
		return "", fmt.Errorf("find system: %w: the BMC lists none; %s", &bmc.BusyError{}, starts)
	}
	return "", fmt.Errorf("%w: the BMC has %d systems; add the path of one to the address: %s",
		bmc.ErrAddress, len(members), listed(members))
}

// Switch implements bmc.Switcher. What was learned of one system is not taken for
// another's.
func (c *conn) Switch(address string) error {
	ep, err := parseAddress(address)
	switch {
	case err != nil:
		return err
	case ep.base != c.base || ep.system == "":
		return fmt.Errorf("%w: it names no system of %s", bmc.ErrAddress, c.base)
	}
	c.target.Address, c.system = address, ep.system
	c.learned, c.resetTypes = false, nil
	return nil
}

// starts is what a BMC without systems most likely does: its web server is up before
// what knows of the hardware is (OpenBMC's inventory comes by D-Bus, minutes later).
const starts = "it may be starting"

// noSuchSystem is the error of a system that is not there: an address to correct, for
// which it names those that are; or a BMC that has not found its system yet.
func (c *conn) noSuchSystem() error {
	members, err := c.systems()
	switch {
	case err != nil && !isMissing(err):
		return err
	case len(members) == 0:
		return fmt.Errorf("%w: the BMC has no system at %s, and lists none; %s", &bmc.BusyError{}, c.system, starts)
	case slices.Contains(members, c.system):
		return fmt.Errorf("%w: the BMC lists a system at %s, and does not show it; %s", &bmc.BusyError{}, c.system, starts)
	}
	return fmt.Errorf("%w: the BMC has no system at %s; correct the path: %s", bmc.ErrAddress, c.system, listed(members))
}

func listed(members []string) string {
	more := ""
	if len(members) > maxShown {
		members, more = members[:maxShown], ", …"
	}
	return strings.Join(members, ", ") + more
}
