// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// Dialer selects a driver by the address of a BMC. It is safe for concurrent use.
type Dialer struct {
	drivers []bmc.Driver
	found   memory
}

// New returns a dialer for drivers with different names. For an address without a scheme it
// probes the protocols in the given order and uses the first one that the BMC speaks.
func New(drivers ...bmc.Driver) *Dialer {
	return &Dialer{drivers: slices.Clone(drivers)}
}

// Dial implements bmc.Dialer. In addition to the errors of the drivers it returns
// bmc.ErrAddress for an unknown scheme. If it finds no protocol for an address without a
// scheme, it returns bmc.ErrNotSupported if a server answered and bmc.ErrUnreachable if not.
func (d *Dialer) Dial(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	driver, bare, err := d.driver(target.Address)
	switch {
	case err != nil:
		return nil, err
	case bare:
		return d.dialBare(ctx, target)
	}
	return driver.Dial(ctx, target)
}

// Offers returns the capabilities that the driver of an address supports at best. known is
// false if the address has no scheme, or a scheme without a driver (see Check).
func (d *Dialer) Offers(address string) (offers []bmc.Capability, known bool) {
	driver, bare, err := d.driver(address)
	if err != nil || bare {
		return nil, false
	}
	return append([]bmc.Capability{bmc.CapPower, bmc.CapBootDevice, bmc.CapInventory}, driver.Offers...), true
}

// Check returns bmc.ErrAddress if the scheme of an address has no driver. It checks no other
// part of the address.
func (d *Dialer) Check(address string) error {
	_, _, err := d.driver(address)
	return err
}

// schemePattern is RFC 3986 section 3.1. Errors do not show other schemes, which may hold a
// password.
var schemePattern = regexp.MustCompile(`^[a-z][a-z0-9+.-]{0,63}$`)

// driver returns the driver of an address, or bare if the address has no scheme.
func (d *Dialer) driver(address string) (driver bmc.Driver, bare bool, _ error) {
	scheme, _, found := strings.Cut(address, "://")
	if !found {
		return bmc.Driver{}, true, nil
	}
	scheme = strings.ToLower(scheme)
	names := make([]string, 0, len(d.drivers))
	for _, driver := range d.drivers {
		if driver.Name == scheme {
			return driver, false, nil
		}
		names = append(names, driver.Name+"://")
	}
	shown := ""
	if schemePattern.MatchString(scheme) {
		shown = " for " + scheme + "://"
	}
	return bmc.Driver{}, false, fmt.Errorf("%w: there is no driver%s; write one of %s, or a host without a scheme", bmc.ErrAddress, shown, strings.Join(names, ", "))
}
