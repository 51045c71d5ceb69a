// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"

	"github.com/ingot-metal/ingot/bmc"
)

// Scheme is the scheme of IPMI addresses.
const Scheme = "ipmi"

// defaultPort is the primary RMCP port (IPMI v2.0 §13.1.2).
const defaultPort = "623"

// parseAddress returns host:port of ipmi://host[:port]. Errors wrap bmc.ErrAddress and never
// show a user or password of the address.
func parseAddress(address string) (string, error) {
	fail := func(why string) (string, error) {
		return "", fmt.Errorf("%w: want ipmi://host[:port]: %s", bmc.ErrAddress, why)
	}
	u, err := url.Parse(address)
	if err != nil {
		return fail("not a URL") // the parser's error quotes the address
	}
	switch {
	case u.Scheme != Scheme:
		return fail(fmt.Sprintf("scheme is %q", u.Scheme))
	case u.User != nil:
		return fail("holds a user; credentials belong in the Secret")
	case u.Hostname() == "":
		return fail("no host")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return fail("query or fragment")
	case u.Path != "" && u.Path != "/":
		return fail(fmt.Sprintf("path is %q: IPMI has one system per BMC", u.Path))
	}
	port := cmp.Or(u.Port(), defaultPort)
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fail(fmt.Sprintf("port is %q", port))
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
