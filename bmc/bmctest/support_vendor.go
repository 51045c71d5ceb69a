// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import "slices"

// The vendor drivers, each with one driver of bmclib v2.3.5 ("bmclib" below; paths are of its
// source).
const (
	DriverDell       = "vendor+dell"
	DriverSupermicro = "vendor+supermicro"
	DriverOpenBMC    = "vendor+openbmc"
	DriverASRockRack = "vendor+asrockrack"
	DriverAMT        = "vendor+intelamt"
	DriverRPC        = "vendor+rpc"
)

// The BMCs without Redfish and IPMI.
const (
	// E3C246D4I is a board of ASRock Rack, with its own HTTP API.
	E3C246D4I Personality = "E3C246D4I"
	// AMT is Intel's Active Management Technology, over WS-Management.
	AMT Personality = "AMT"
	// Webhook is a receiver of bmclib's rpc notifications.
	Webhook Personality = "webhook"
)

// vendorPersonalities returns those of a driver, in the order of the matrix.
func vendorPersonalities(driver string) []Personality {
	switch driver {
	case DriverDell:
		return []Personality{IDRAC9, IDRAC10}
	case DriverSupermicro:
		return []Personality{SupermicroX11, SupermicroX12}
	case DriverOpenBMC:
		return []Personality{OpenBMC}
	case DriverASRockRack:
		return []Personality{E3C246D4I}
	case DriverAMT:
		return []Personality{AMT}
	case DriverRPC:
		return []Personality{Webhook}
	}
	return nil
}

// overRedfish reports whether a vendor driver uses Ingot's Redfish driver for a feature. Its BMCs
// then have the same gaps as with Redfish.
func overRedfish(driver string, f Feature) bool {
	switch driver {
	case DriverDell, DriverOpenBMC:
		return true
	case DriverSupermicro:
		return f != UpdatePush // X11 boards receive images through their web interface
	}
	return false
}

// vendorGaps are features that BMCs lack with vendor drivers.
var vendorGaps = slices.Concat(
	gaps(DriverASRockRack, nil, "providers/asrockrack has no such call, and ASRock Rack does not document the board's other API",
		Boot, BootMode, BootCD, BootSetup, BootHTTP, Media, Settings, UpdateURL, EventLog, Console, SecureBoot, Indicator),
	gaps(DriverASRockRack, nil, "providers/asrockrack/inventory.go reduces the sensors to one state", Health),
	gaps(DriverASRockRack, nil, "providers/asrockrack/user.go writes an account's role and rights together with its password, and cannot read them", Accounts),

	gaps(DriverAMT, nil, "of AMT, Ingot uses only power and the next network boot (bmc/vendor/amt.go)",
		BootMode, BootCD, BootSetup, BootHTTP, Inventory, Media, Settings, Versions, UpdateURL, UpdatePush, Health, EventLog,
		Console, Accounts, SecureBoot, Reset, Indicator),

	gaps(DriverRPC, nil, "providers/rpc/payload.go has the methods getPowerState, setPowerState, setBootDevice and ping, and setVirtualMedia, which has no sender",
		Inventory, Media, Settings, Versions, UpdateURL, UpdatePush, Health, EventLog, Console, Accounts, SecureBoot, Reset, Indicator),
	gaps(DriverRPC, nil, "providers/rpc/payload.go BootDeviceParams has no URL", BootHTTP),
)

// gaps returns the gaps of some personalities of a driver, or of all, with one reason.
func gaps(driver string, ps []Personality, why string, features ...Feature) []Gap {
	list := make([]Gap, len(features))
	for i, f := range features {
		list[i] = Gap{Driver: driver, Personalities: ps, Feature: f, Reason: why}
	}
	return list
}
