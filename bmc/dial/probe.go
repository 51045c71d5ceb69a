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

// maxProbe bounds one probe. With a shorter deadline a probe gets a third of it, which leaves
// time for the next probe and the login.
const maxProbe = 10 * time.Second

// dialBare dials an address without a scheme with the remembered driver, or probes for one.
func (d *Dialer) dialBare(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	host, err := authority(target.Address)
	if err != nil {
		return nil, err
	}
	driver, ok := d.remembered(target)
	if !ok {
		if driver, err = d.find(ctx, target, host); err != nil {
			return nil, err
		}
	}
	at := target
	at.Address = driver.Name + "://" + host
	conn, err := driver.Dial(ctx, at)
	if err == nil {
		return conn, nil
	}
	if errors.Is(err, bmc.ErrUnreachable) || errors.Is(err, bmc.ErrNotSupported) || errors.Is(err, bmc.ErrProtocol) {
		// The address may have another BMC, or other firmware, by now.
		d.found.forget(target.Address)
	}
	return nil, fmt.Errorf("dial with %s://, the protocol found by a probe: %w", driver.Name, err)
}

// authority returns host[:port] of an address without a scheme, with brackets around an IPv6
// address. The driver checks the rest.
func authority(address string) (string, error) {
	if address == "" || strings.ContainsAny(address, "@/?#") {
		return "", fmt.Errorf("%w: want host, host:port, an IPv6 address, or a URL; credentials belong in the Secret", bmc.ErrAddress)
	}
	if strings.Count(address, ":") > 1 && !strings.HasPrefix(address, "[") {
		return "[" + address + "]", nil
	}
	return address, nil
}

// remembered returns the driver that was found at the target's address, if it satisfies the
// target's requirements.
func (d *Dialer) remembered(target bmc.Target) (bmc.Driver, bool) {
	name, ok := d.found.get(target.Address, time.Now())
	i := slices.IndexFunc(d.drivers, func(driver bmc.Driver) bool { return driver.Name == name })
	if !ok || i < 0 || requiresCertificate(target) && !d.drivers[i].TLS {
		return bmc.Driver{}, false
	}
	return d.drivers[i], true
}

// requiresCertificate reports whether the BMC must prove its identity by a certificate.
// Otherwise, an attacker that blocks TLS would get the credentials by another protocol.
func requiresCertificate(target bmc.Target) bool {
	return target.Fingerprint != "" || len(target.CABundle) > 0
}

// find probes the BMC for its protocol, without credentials.
func (d *Dialer) find(ctx context.Context, target bmc.Target, host string) (bmc.Driver, error) {
	target.Username, target.Password = "", ""
	missing := &notFound{address: host}
	first := true
	for _, driver := range d.drivers {
		if driver.Probe == nil {
			continue
		}
		if requiresCertificate(target) && !driver.TLS {
			missing.add(driver.Name, errSkipped)
			continue
		}
		at := target
		at.Address = driver.Name + "://" + host
		err := probe(ctx, driver, at)
		switch {
		case err == nil, errors.Is(err, bmc.ErrCertificate):
			d.found.put(target.Address, driver.Name, first, time.Now())
		case ctx.Err() != nil:
			return bmc.Driver{}, fmt.Errorf("probe %s for %s://: %w", host, driver.Name, err)
		case errors.Is(err, bmc.ErrUnreachable), errors.Is(err, bmc.ErrNotSupported):
			missing.add(driver.Name, err)
			first = false
			continue
		}
		if err != nil {
			return bmc.Driver{}, fmt.Errorf("probe %s for %s:// (add the scheme to skip the probe): %w", host, driver.Name, err)
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

// errSkipped is the reason why a protocol without certificates was not probed.
var errSkipped = errors.New("skipped, because the host requires a certificate and this protocol has none")

// notFound lists the probed protocols and their errors.
type notFound struct {
	address string
	tried   []string
	errs    []error
}

func (n *notFound) add(scheme string, err error) {
	n.tried = append(n.tried, fmt.Sprintf("%s://: %v", scheme, err))
	n.errs = append(n.errs, err)
}

func (n *notFound) Error() string {
	if len(n.tried) == 0 {
		return fmt.Sprintf("%s: %v: no driver can probe for BMCs; add the scheme", n.address, bmc.ErrAddress)
	}
	return fmt.Sprintf("%v: no BMC was found at %s with %s", n.Unwrap(), n.address, strings.Join(n.tried, "; with "))
}

// Unwrap returns ErrNotSupported if a server answered one of the probes.
func (n *notFound) Unwrap() error {
	switch {
	case len(n.tried) == 0:
		return bmc.ErrAddress
	case slices.ContainsFunc(n.errs, func(err error) bool { return errors.Is(err, bmc.ErrNotSupported) }):
		return bmc.ErrNotSupported
	}
	return bmc.ErrUnreachable
}
