// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentapi

import "strings"

// DHCP options (site specific, RFC 3942) that give the agent's own DHCP client the values of
// ArgServer, ArgPin, ArgToken and ArgFiles. The server sends them only to VendorClass, only
// while an order waits, and only if the client requests them (option 55).
const (
	OptionServer = 224
	OptionPin    = 225
	OptionToken  = 226
	OptionFiles  = 227
)

// Enterprise is the enterprise number for the same values in DHCPv6, which has no
// site-specific options. The option numbers above are codes within the vendor-specific
// information option (17), and VendorClass is in the vendor class option (16). Ingot has no
// number of its own: this one is reserved for documentation (RFC 5612), and the server
// answers it only to VendorClass.
const Enterprise = 32473

// VendorClass is the agent's vendor class (DHCP option 60), by which the boot server tells
// the agent from firmware.
const VendorClass = "IngotAgent"

type BootOptions struct {
	Server, Pin, Files string
	Token              Sensitive
}

// purposeElement is the index of the purpose among the slash-separated elements of a token.
const purposeElement = 3

// IsForUnknownServer reports whether a token is for an unknown server. It does not verify the
// token: an agent with such a token does less than any other.
func IsForUnknownServer(token Sensitive) bool {
	elements := strings.Split(token.Reveal(), "/")
	return len(elements) > purposeElement && elements[purposeElement] == string(Discover)
}
