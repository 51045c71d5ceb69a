// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentapi

// DHCP options (site specific, RFC 3942) by which the agent's own exchange tells it
// what ArgServer, ArgPin, ArgToken and ArgFiles tell it on a command line. They are
// sent to VendorClass only, while an order waits, and only when asked for by number
// (option 55).
const (
	OptionServer = 224
	OptionPin    = 225
	OptionToken  = 226
	OptionFiles  = 227
)

// Enterprise is the number under which DHCPv6 carries the same: the values above are
// codes of the vendor-specific information option (17), sent when that one is asked for,
// and VendorClass stands in the vendor class option (16). Ingot has no number of its own,
// and DHCPv6 no site specific options; this one is nobody's (RFC 5612), and only who says
// VendorClass is answered by it.
const Enterprise = 32473

// VendorClass is the agent's DHCP option 60: the boot server knows by it that the
// firmware's part is over.
const VendorClass = "IngotAgent"

// BootOptions are the values of those options, as they came.
type BootOptions struct {
	Server, Pin, Files string
	Token              Sensitive
}
