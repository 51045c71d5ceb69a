// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// maxProbe bounds one probe; it gets a third of a shorter deadline, so that the next
// one and the login have their time.
const maxProbe = 10 * time.Second

// dialBare dials a host alone, by the driver that was found earlier, or is found now.
func (d *Dialer) dialBare(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	place, err := authority(target.Address)
	if err != nil {
		return nil, err
	}
	driver, ok := d.remembered(target)
	if !ok {
		if driver, err = d.find(ctx, target, place); err != nil {
			return nil, err
		}
	}
	at := target
	at.Address = driver.Name + "://" + place
	conn, err := driver.Dial(ctx, at)
	if err == nil {
		return conn, nil
	}
	if errors.Is(err, bmc.ErrUnreachable) || errors.Is(err, bmc.ErrNotSupported) || errors.Is(err, bmc.ErrProtocol) {
		// It may be another BMC by now, or the same with another firmware.
		d.found.forget(target.Address)
	}
	return nil, fmt.Errorf("by %s://, which the BMC was found to speak: %w", driver.Name, err)
}

// authority makes host[:port] of a bare address: an IPv6 address gets its brackets.
// The driver judges the rest.
func authority(address string) (string, error) {
	if address == "" || strings.ContainsAny(address, "@/?#") {
		return "", fmt.Errorf("%w: want host, host:port, an IPv6 address, or a URL; credentials belong in the Secret", bmc.ErrAddress)
	}
	if strings.Count(address, ":") > 1 && !strings.HasPrefix(address, "[") {
		return "[" + address + "]", nil
	}
	return address, nil
}

// remembered is what was found at the target's address, if it fits its trust.
func (d *Dialer) remembered(target bmc.Target) (bmc.Driver, bool) {
	name, ok := d.found.get(target.Address, time.Now())
	i := slices.IndexFunc(d.drivers, func(driver bmc.Driver) bool { return driver.Name == name })
	if !ok || i < 0 || wantsCertificate(target) && !d.drivers[i].TLS {
		return bmc.Driver{}, false
	}
	return d.drivers[i], true
}

// wantsCertificate says that the target names what the BMC must prove itself by: who
// silences that protocol must not get the credentials by another.
func wantsCertificate(target bmc.Target) bool {
	return target.Fingerprint != "" || len(target.CABundle) > 0
}

// find asks the BMC which protocol it speaks, without credentials.
func (d *Dialer) find(ctx context.Context, target bmc.Target, place string) (bmc.Driver, error) {
	target.Username, target.Password = "", ""
	missing := &notFound{address: place}
	first := true
	for _, driver := range d.drivers {
		if driver.Probe == nil {
			continue
		}
		if wantsCertificate(target) && !driver.TLS {
			missing.add(driver.Name, errSkipped)
			continue
		}
		at := target
		at.Address = driver.Name + "://" + place
		err := probe(ctx, driver, at)
		switch {
		case err == nil, errors.Is(err, bmc.ErrCertificate):
			d.found.put(target.Address, driver.Name, first, time.Now())
		case ctx.Err() != nil:
			return bmc.Driver{}, fmt.Errorf("ask %s for %s://: %w", place, driver.Name, err)
		case errors.Is(err, bmc.ErrUnreachable), errors.Is(err, bmc.ErrNotSupported):
			missing.add(driver.Name, err)
			first = false
			continue
		}
		if err != nil {
			return bmc.Driver{}, fmt.Errorf("ask %s for %s:// (write the scheme to skip that): %w", place, driver.Name, err)
		}
		return driver, nil
	}
	return bmc.Driver{}, missing
}

func probe(ctx context.Context, driver bmc.Driver, target bmc.Target) error {
	wait := maxProbe
	if until, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(until)/3)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return driver.Probe(ctx, target)
}

// errSkipped is why a protocol without certificates was not looked for.
var errSkipped = errors.New("not asked, because the host names the certificate that its BMC must show, and this has none")

// notFound says what was asked for and what came of it.
type notFound struct {
	address string
	tried   []string
	errs    []error
}

func (n *notFound) add(scheme string, err error) {
	n.tried = append(n.tried, fmt.Sprintf("%s://: %v", scheme, err))
	n.errs = append(n.errs, err)
}

// Error implements error.
func (n *notFound) Error() string {
	if len(n.tried) == 0 {
		return fmt.Sprintf("%s: %v: no driver looks for BMCs; write the scheme", n.address, bmc.ErrAddress)
	}
	return fmt.Sprintf("%v: no BMC was found at %s, asked for %s", n.sentinel(), n.address, strings.Join(n.tried, "; for "))
}

// Unwrap returns the sentinel.
func (n *notFound) Unwrap() error { return n.sentinel() }

// sentinel is ErrNotSupported if somebody answered.
func (n *notFound) sentinel() error {
	switch {
	case len(n.tried) == 0:
		return bmc.ErrAddress
	case slices.ContainsFunc(n.errs, func(err error) bool { return errors.Is(err, bmc.ErrNotSupported) }):
		return bmc.ErrNotSupported
	}
	return bmc.ErrUnreachable
}
