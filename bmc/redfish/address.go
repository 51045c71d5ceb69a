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

// The schemes of the addresses that this driver takes.
const (
	// Scheme speaks HTTPS.
	Scheme = "redfish"
	// SchemeHTTP speaks HTTP in clear: password and token can be read on the way.
	SchemeHTTP = "redfish+http"
)

const serviceRoot = "/redfish/v1"

// endpoint is a parsed address.
type endpoint struct {
	// scheme of the URLs: https, or http.
	scheme string
	// base is scheme://host[:port], without a slash at the end.
	base string
	// host is host[:port] as in URLs, and name the host for TLS.
	host, name string
	// system is the path of the system; empty: the only one.
	system string
}

// parseAddress reads redfish://host[:port][/redfish/v1/Systems/<id>], or the same
// with redfish+http. Errors wrap bmc.ErrAddress and never show a user or password
// that somebody put there.
func parseAddress(address string) (endpoint, error) {
	fail := func(why string) (endpoint, error) {
		return endpoint{}, fmt.Errorf("%w: want redfish[+http]://host[:port][%s/Systems/<id>]: %s", bmc.ErrAddress, serviceRoot, why)
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("not a URL") // the parser's error quotes the address
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	if path == serviceRoot {
		path = "" // every service has it: the only system is meant
	}
	switch {
	case u.Scheme != Scheme && u.Scheme != SchemeHTTP:
		return fail(fmt.Sprintf("scheme is %q", u.Scheme))
	case u.User != nil:
		return fail("holds a user; credentials belong in the Secret")
	case u.Hostname() == "":
		return fail("no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return fail("query or fragment")
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

// trustFits refuses a target that wants a certificate from an address without one:
// it was meant for another address.
func (e endpoint) trustFits(target bmc.Target) error {
	if e.scheme == "http" && (target.Fingerprint != "" || len(target.CABundle) > 0) {
		return fmt.Errorf("%w: %s:// has no certificate to verify; write %s://", bmc.ErrAddress, SchemeHTTP, Scheme)
	}
	return nil
}

// isSystemPath reports the path of one member of /redfish/v1/Systems.
func isSystemPath(path string) bool {
	id, ok := strings.CutPrefix(path, serviceRoot+"/Systems/")
	return ok && id != "" && !strings.Contains(id, "/") && id != "." && id != ".."
}

// isLink reports a reference that stays on this BMC. gofish glues references to
// the end of "https://host", so that one that starts otherwise could name
// another host ("@evil/…"), to which the session token would go.
func isLink(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && len(path) <= maxLink &&
		!strings.ContainsAny(path, " \\\r\n\t")
}

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
