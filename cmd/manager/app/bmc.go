// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/dial"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/bmc/vendor"
)

// NewDialer knows every driver; a host alone is asked for Redfish, then for IPMI.
func NewDialer() *dial.Dialer {
	return dial.New(slices.Concat([]bmc.Driver{redfish.Driver(), redfish.PlainDriver(), ipmi.Driver()}, vendor.Drivers())...)
}
