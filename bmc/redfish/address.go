// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// The schemes of this driver's addresses. With SchemeHTTP, password and token are sent in
// cleartext.
const (
	Scheme     = "redfish"
	SchemeHTTP = "redfish+http"
)

const serviceRoot = "/redfish/v1"

// endpoint is a parsed address.
type endpoint struct {
	// scheme of the URLs: https or http.
	scheme string
	// base is scheme://host[:port], without a slash at the end.
	base string
	// host is host[:port] in URLs, and name is the host for TLS.
	host, name string
	// system is the path of the system; empty: the only one.
	system string
}

// parseAddress parses redfish[+http]://host[:port][/redfish/v1/Systems/<id>]. Errors wrap
// bmc.ErrAddress and never show credentials that the address contains.
func parseAddress(address string) (endpoint, error) {
	fail := func(why string) (endpoint, error) {
		return endpoint{}, fmt.Errorf("%w: must be redfish[+http]://host[:port][%s/Systems/<id>]: %s", bmc.ErrAddress, serviceRoot, why)
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("not a URL") // the parser's error quotes the address
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if path == serviceRoot {
		path = "" // the service root means the only system
	}
	switch {
	case u.Scheme != Scheme && u.Scheme != SchemeHTTP:
		return fail(fmt.Sprintf("scheme is %q", u.Scheme))
	case u.User != nil:
		return fail("it has credentials, which belong in the Secret")
	case u.Hostname() == "":
		return fail("no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return fail("it has a query or fragment")
	case path != "" && !isSystemPath(path):
		return fail(fmt.Sprintf("path is %q", path))
	}
	scheme, port := "https", "443"
	if u.Scheme == SchemeHTTP {
		scheme, port = "http", "80"
	}
	host := u.Host
	if strings.Contains(u.Hostname(), ":") && u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), port)
	}
	return endpoint{scheme: scheme, base: scheme + "://" + host, host: host, name: u.Hostname(), system: path}, nil
}

// checkTrust rejects a target that has trust settings for an address without TLS: they were meant
// for another address.
func (e endpoint) checkTrust(target bmc.Target) error {
	if e.scheme == "http" && (target.Fingerprint != "" || len(target.CABundle) > 0) {
		return fmt.Errorf("%w: %s:// has no certificate to verify; write %s://", bmc.ErrAddress, SchemeHTTP, Scheme)
	}
	return nil
}

// isSystemPath reports whether path is a member of /redfish/v1/Systems.
func isSystemPath(path string) bool {
	id, ok := strings.CutPrefix(path, serviceRoot+"/Systems/")
	return ok && id != "" && !strings.Contains(id, "/") && id != "." && id != ".."
}

// isLink reports whether a reference stays on this BMC. gofish appends references to
// "https://host", so "@evil/…" would send the session token to another host.
func isLink(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && len(path) <= maxLink &&
		!strings.ContainsAny(path, " \\\r\n\t")
}

// maxShown bounds the systems that an error lists.
const maxShown = 8

// systems returns the paths of the BMC's systems.
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

// onlySystem returns the system for an address that names none.
func (c *conn) onlySystem() (string, error) {
	members, err := c.systems()
	switch {
	case err != nil:
		return "", err
	case len(members) == 1:
		return members[0], nil
	case len(members) == 0:
		return "", fmt.Errorf("find system: %w: the BMC lists no system; %s", &bmc.BusyError{}, startingHint)
	}
	return "", fmt.Errorf("%w: the BMC has %d systems; append the path of one to the address: %s",
		bmc.ErrAddress, len(members), listed(members))
}

// SwitchSystem implements bmc.SystemSwitcher. It forgets what was learned about the previous system.
func (c *conn) SwitchSystem(address string) error {
	ep, err := parseAddress(address)
	switch {
	case err != nil:
		return err
	case ep.base != c.base || ep.system == "":
		return fmt.Errorf("%w: it must name a system of %s", bmc.ErrAddress, c.base)
	}
	c.target.Address, c.system = address, ep.system
	c.learned, c.resetTypes = false, nil
	return nil
}

// startingHint is the likely reason for a missing system: the web server of a BMC starts before the
// inventory (OpenBMC's arrives by D-Bus minutes later).
const startingHint = "the BMC may still be starting"

// noSuchSystem returns the error for a missing system: ErrAddress with the existing systems, or
// ErrBusy if the BMC has not found its system yet.
func (c *conn) noSuchSystem() error {
	members, err := c.systems()
	switch {
	case err != nil && !isMissing(err):
		return err
	case len(members) == 0:
		return fmt.Errorf("%w: no system at %s, and no other system; %s", &bmc.BusyError{}, c.system, startingHint)
	case slices.Contains(members, c.system):
		return fmt.Errorf("%w: the system %s is listed but missing; %s", &bmc.BusyError{}, c.system, startingHint)
	}
	return fmt.Errorf("%w: no system at %s; the BMC has %s", bmc.ErrAddress, c.system, listed(members))
}

func listed(members []string) string {
	more := ""
	if len(members) > maxShown {
		members, more = members[:maxShown], ", …"
	}
	return strings.Join(members, ", ") + more
}
