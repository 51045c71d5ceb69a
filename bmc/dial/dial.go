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

// Dialer dials BMCs by whatever driver their address asks for. It is safe for
// concurrent use.
type Dialer struct {
	drivers []bmc.Driver
	found   memory
}

// New returns a dialer of these drivers, whose names differ. A host alone is asked
// for the protocols of those that can probe, in the order given: a BMC that speaks
// several is driven by the first.
func New(drivers ...bmc.Driver) *Dialer {
	return &Dialer{drivers: slices.Clone(drivers)}
}

// Dial implements bmc.Dialer. Beside the errors of the drivers it returns
// bmc.ErrAddress for a scheme that no driver has, and for a host alone, where no
// protocol was found, bmc.ErrNotSupported if somebody answered and bmc.ErrUnreachable
// if nobody did.
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

// Offers tells the capabilities that the driver of an address has at best, those of
// every driver included. Not known: the address is a host alone, whose BMC has to be
// asked, or none that any driver takes (see Check).
func (d *Dialer) Offers(address string) (offers []bmc.Capability, known bool) {
	driver, bare, err := d.driver(address)
	if err != nil || bare {
		return nil, false
	}
	return append([]bmc.Capability{bmc.CapPower, bmc.CapBootDevice, bmc.CapInventory}, driver.Offers...), true
}

// Check refuses the scheme of an address that no driver has, with bmc.ErrAddress. It
// looks at nothing else of the address.
func (d *Dialer) Check(address string) error {
	_, _, err := d.driver(address)
	return err
}

// schemePattern is RFC 3986, section 3.1, and never written to. What does not match is
// not shown in an error: it may hold a password.
var schemePattern = regexp.MustCompile(`^[a-z][a-z0-9+.-]{0,63}$`)

// driver finds the driver of an address by its scheme.
func (d *Dialer) driver(address string) (driver bmc.Driver, bare bool, _ error) {
	scheme, _, found := strings.Cut(address, "://")
	if !found {
		return bmc.Driver{}, true, nil
	}
	scheme = strings.ToLower(scheme)
	for _, driver := range d.drivers {
		if driver.Name == scheme {
			return driver, false, nil
		}
	}
	shown := ""
	if schemePattern.MatchString(scheme) {
		shown = " for " + scheme + "://"
	}
	return bmc.Driver{}, false, fmt.Errorf("%w: there is no driver%s; write one of %s, or a host alone", bmc.ErrAddress, shown, d.schemes())
}

// schemes lists what can be written.
func (d *Dialer) schemes() string {
	names := make([]string, 0, len(d.drivers))
	for _, driver := range d.drivers {
		names = append(names, driver.Name+"://")
	}
	return strings.Join(names, ", ")
}
