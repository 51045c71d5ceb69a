// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import "slices"

// The makers' own ways, each by one driver of bmclib v2.3.5 ("bmclib" below; paths
// are of its source).
const (
	DriverDell       = "vendor+dell"
	DriverSupermicro = "vendor+supermicro"
	DriverOpenBMC    = "vendor+openbmc"
	DriverASRockRack = "vendor+asrockrack"
	DriverAMT        = "vendor+intelamt"
	DriverRPC        = "vendor+rpc"
)

// The BMCs that speak neither Redfish nor IPMI.
const (
	// E3C246D4I is a board of ASRock Rack, with its own HTTP API.
	E3C246D4I Personality = "E3C246D4I"
	// AMT is Intel's Active Management Technology, over WS-Management.
	AMT Personality = "AMT"
	// Webhook is whatever answers bmclib's rpc notifications.
	Webhook Personality = "webhook"
)

// vendorPersonalities of a driver, in the order of the matrix.
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

// overRedfish says whether a driver speaks Redfish, by our own driver, for all but
// the pushing of firmware: its BMCs then lack what they lack by Redfish, except
// what the maker's way adds.
func overRedfish(driver string, f Feature) bool {
	switch driver {
	case DriverDell, DriverOpenBMC:
		return true
	case DriverSupermicro:
		return f != UpdatePush // X11 boards take images through their web interface
	}
	return false
}

// vendorGaps are what BMCs lack by the makers' ways.
var vendorGaps = slices.Concat(
	gaps(DriverASRockRack, "providers/asrockrack has no such call; the board's API beside it is not documented by its maker",
		Boot, BootMode, BootCD, BootSetup, BootHTTP, Media, Settings, UpdateURL, EventLog, Console, SecureBoot, Indicator),
	gaps(DriverASRockRack, "providers/asrockrack/inventory.go sums the sensors up in one word and keeps none of them", Health),
	gaps(DriverASRockRack, "providers/asrockrack/user.go writes role and rights of an account together with its password, and cannot tell what they were", Accounts),

	gaps(DriverAMT, "Ingot drives power and the next boot from the network only, of what AMT has (bmc/vendor/amt.go)",
		BootMode, BootCD, BootSetup, BootHTTP, Inventory, Media, Settings, Versions, UpdateURL, UpdatePush, Health, EventLog,
		Console, Accounts, SecureBoot, Reset, Indicator),

	gaps(DriverRPC, "providers/rpc/payload.go has the methods getPowerState, setPowerState, setBootDevice and ping, and setVirtualMedia, which nothing sends",
		Inventory, Media, Settings, Versions, UpdateURL, UpdatePush, Health, EventLog, Console, Accounts, SecureBoot, Reset, Indicator),
	gaps(DriverRPC, "providers/rpc/payload.go BootDeviceParams has no place for a URL", BootHTTP),
)

// gaps are features that all personalities of a driver lack for one reason.
func gaps(driver, why string, features ...Feature) []Gap {
	list := make([]Gap, len(features))
	for i, f := range features {
		list[i] = Gap{Driver: driver, Feature: f, Why: why}
	}
	return list
}
