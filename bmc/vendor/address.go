// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"fmt"
	"net"
	"net/url"

	"github.com/ingot-metal/ingot/bmc"
)

// Scheme begins the schemes of this package's addresses: Scheme + driver.
const Scheme = "vendor+"

// portAMT is Intel AMT's without TLS; 16993 is its port with TLS.
const (
	portAMT    = "16992"
	portAMTTLS = "16993"
)

// endpoint is a parsed address.
type endpoint struct {
	// scheme is https; only AMT's port without TLS is http.
	scheme string
	// host is host:port as in URLs, brackets and all.
	host string
	// name is the host alone, for TLS and for whom the library names.
	name string
}

// parseAddress reads vendor+<driver>://host[:port]. Errors wrap bmc.ErrAddress and
// never show a user or password that somebody put there.
func parseAddress(driver, address string) (endpoint, error) {
	fail := func(why string) (endpoint, error) {
		return endpoint{}, fmt.Errorf("%w: want %s%s://host[:port]: %s", bmc.ErrAddress, Scheme, driver, why)
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("not a URL") // the parser's error quotes the address
	}
	switch {
	case u.Scheme != Scheme+driver:
		return fail(fmt.Sprintf("scheme is %q", u.Scheme))
	case u.User != nil:
		return fail("holds a user; credentials belong in the Secret")
	case u.Hostname() == "":
		return fail("no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return fail("query or fragment")
	case u.Path != "" && u.Path != "/":
		return fail("has a path")
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
