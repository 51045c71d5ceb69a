// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import "github.com/ingot-metal/ingot/bmc"

// Driver is this driver and what it can at best; a BMC may offer less.
func Driver() bmc.Driver {
	return bmc.Driver{Name: Scheme, Dial: Dial, Probe: Probe, TLS: true, Offers: []bmc.Capability{
		bmc.CapMedia, bmc.CapSettings, bmc.CapFirmware, bmc.CapFirmwareFetch, bmc.CapFirmwarePush, bmc.CapHealth, bmc.CapEventLog, bmc.CapAccounts,
		bmc.CapSecureBoot, bmc.CapReset, bmc.CapIndicator, bmc.CapEvents,
	}}
}

// PlainDriver is the same in clear, which is never looked for: only an address that
// says so gets it.
func PlainDriver() bmc.Driver {
	d := Driver()
	d.Name, d.Probe, d.TLS = SchemeHTTP, nil, false
	return d
}
