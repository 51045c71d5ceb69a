// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"fmt"
	"net"
	"net/url"

	"github.com/ingot-metal/ingot/bmc"
)

// Scheme is the start of this package's address schemes; the name of the driver follows.
const Scheme = "vendor+"

// The ports of Intel AMT.
const (
	portAMT    = "16992"
	portAMTTLS = "16993"
)

// endpoint is a parsed address.
type endpoint struct {
	// scheme is https, except for AMT's port without TLS.
	scheme string
	// host is host:port as in URLs, with brackets.
	host string
	// name is the host without port, for TLS.
	name string
}

// parseAddress parses vendor+<driver>://host[:port]. Errors wrap bmc.ErrAddress and never show
// credentials that the address contains.
func parseAddress(driver, address string) (endpoint, error) {
	fail := func(why string) (endpoint, error) {
		return endpoint{}, fmt.Errorf("%w: must be %s%s://host[:port]: %s", bmc.ErrAddress, Scheme, driver, why)
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("not a URL") // the parser's error quotes the address
	}
	switch {
	case u.Scheme != Scheme+driver:
		return fail(fmt.Sprintf("scheme is %q", u.Scheme))
	case u.User != nil:
		return fail("it has credentials, which belong in the Secret")
	case u.Hostname() == "":
		return fail("no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return fail("it has a query or fragment")
	case u.Path != "" && u.Path != "/":
		return fail("it has a path")
	}
	ep := endpoint{scheme: "https", name: u.Hostname()}
	port := u.Port()
	if driver == nameAMT {
		switch port {
		case "":
			port = portAMTTLS
		case portAMT:
			ep.scheme = "http"
		}
	}
	if port == "" {
		port = "443"
	}
	ep.host = net.JoinHostPort(ep.name, port)
	return ep, nil
}
