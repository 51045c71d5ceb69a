// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// Scheme of the addresses that this driver takes.
const Scheme = "redfish"

const serviceRoot = "/redfish/v1"

// endpoint is a parsed address.
type endpoint struct {
	// base is https://host[:port], without a slash at the end.
	base string
	// host is host[:port] as in URLs, and name the host for TLS.
	host, name string
	// system is the path of the system; empty: the only one.
	system string
}

// parseAddress reads redfish://host[:port][/redfish/v1/Systems/<id>]. Errors wrap
// bmc.ErrAddress and never show a user or password that somebody put there.
func parseAddress(address string) (endpoint, error) {
	fail := func(why string) (endpoint, error) {
		return endpoint{}, fmt.Errorf("%w: want redfish://host[:port][%s/Systems/<id>]: %s", bmc.ErrAddress, serviceRoot, why)
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("not a URL") // the parser's error quotes the address
	}
	path := strings.TrimRight(u.EscapedPath(), "/")
	switch {
	case u.Scheme != Scheme:
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
	host := u.Host
	if strings.Contains(u.Hostname(), ":") && u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	return endpoint{base: "https://" + host, host: host, name: u.Hostname(), system: path}, nil
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
