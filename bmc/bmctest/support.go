// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"slices"

	"github.com/ingot-metal/ingot/bmc"
)

// Personality names how a BMC behaves: a maker's reading of its protocol, or one
// of the independent implementations of IPMI.
type Personality string

// The personalities of Redfish and IPMI.
const (
	Standard      Personality = "standard"
	IDRAC9        Personality = "iDRAC9"
	IDRAC10       Personality = "iDRAC10"
	ILO5          Personality = "iLO5"
	ILO6          Personality = "iLO6"
	SupermicroX11 Personality = "SupermicroX11"
	SupermicroX12 Personality = "SupermicroX12"
	LenovoXCC     Personality = "LenovoXCC"
	OpenBMC       Personality = "OpenBMC"
	AMI           Personality = "AMI"
	// IDRAC9Early and OpenBMCEarly have no MultipartHttpPushUri yet, and take images at
	// their HttpPushUri (DSP2062, HTTP push updates), each in its own form.
	IDRAC9Early  Personality = "iDRAC9-3.36"
	OpenBMCEarly Personality = "OpenBMC-2.8"
	// BasicOnly has no session service, as sushy-tools: Basic authentication is all there is.
	BasicOnly Personality = "BasicOnly"
	// MegaRAC is AMI's firmware on other makers' boards, with weak ETags and without a
	// settings object in Bios.
	MegaRAC Personality = "MegaRAC"
	// SushyTools is the Redfish emulator of many labs, with its fake driver.
	SushyTools Personality = "sushy-tools"
	// IPMISim is OpenIPMI's ipmi_sim, GoIPMI the simulator of go-ipmi, and Pyghmi the server
	// of pyghmi, of which VirtualBMC is made.
	IPMISim Personality = "ipmi_sim"
	GoIPMI  Personality = "go-ipmi"
	Pyghmi  Personality = "pyghmi"
)

// Personalities of a driver, in the order of the matrix.
func Personalities(driver string) []Personality {
	switch driver {
	case DriverRedfish:
		return []Personality{
			Standard, IDRAC9, IDRAC10, ILO5, ILO6, SupermicroX11, SupermicroX12, LenovoXCC, OpenBMC, AMI, IDRAC9Early, OpenBMCEarly, BasicOnly, MegaRAC, SushyTools,
		}
	case DriverIPMI:
		return []Personality{IPMISim, GoIPMI, Pyghmi}
	}
	return vendorPersonalities(driver)
}

// The drivers, by the scheme of their addresses.
const (
	DriverRedfish = "redfish"
	DriverIPMI    = "ipmi"
)

// Feature is a column of the matrix: a capability, or the part of one that some
// BMCs lack while they have the rest.
type Feature string

// The features, with the capability of each where the name does not tell.
const (
	Power     Feature = "Power"
	Boot      Feature = "Boot"     // BootDevice: PXE and disk; once, continuous, off
	BootMode  Feature = "BootMode" // BootDevice: UEFI and BIOS
	BootCD    Feature = "BootCD"
	BootSetup Feature = "BootSetup"
	// BootHTTP is BootDevice with HttpBootUri.
	BootHTTP   Feature = "BootHTTP"
	Inventory  Feature = "Inventory"
	Media      Feature = "Media"
	Settings   Feature = "Settings"
	Versions   Feature = "Versions"   // Firmware: inventory
	UpdateURL  Feature = "UpdateURL"  // FirmwareFetch
	UpdatePush Feature = "UpdatePush" // FirmwarePush
	Health     Feature = "Health"
	EventLog   Feature = "EventLog"
	Console    Feature = "Console"
	Accounts   Feature = "Accounts"
	SecureBoot Feature = "SecureBoot"
	Reset      Feature = "Reset"
	Indicator  Feature = "Indicator"
)

// Features lists all columns in the order of the matrix.
func Features() []Feature {
	return []Feature{
		Power, Boot, BootMode, BootCD, BootSetup, BootHTTP, Inventory, Media, Settings, Versions, UpdateURL, UpdatePush,
		Health, EventLog, Console, Accounts, SecureBoot, Reset, Indicator,
	}
}

// CapabilityOf is the capability that a feature is, or is part of.
func CapabilityOf(f Feature) bmc.Capability {
	switch f {
	case Boot, BootMode, BootCD, BootSetup, BootHTTP:
		return bmc.CapBootDevice
	case Versions:
		return bmc.CapFirmware
	case UpdateURL:
		return bmc.CapFirmwareFetch
	case UpdatePush:
		return bmc.CapFirmwarePush
	}
	return bmc.Capability(f)
}

// Gap is a cell of the matrix that may be "not supported".
type Gap struct {
	Driver string
	// Personalities; empty: all of the driver.
	Personalities []Personality
	Feature       Feature
	// Why, with where it is written.
	Why string
}

// Unsupported returns why a cell may be "not supported". All other cells must
// hold: what is not in the tables below is the driver's debt.
func Unsupported(driver string, p Personality, f Feature) (why string, ok bool) {
	for _, g := range slices.Concat(redfishGaps, sushyGaps, ipmiGaps, pyghmiGaps, vendorGaps) {
		same := g.Driver == driver || g.Driver == DriverRedfish && overRedfish(driver, f)
		if same && g.Feature == f && (len(g.Personalities) == 0 || slices.Contains(g.Personalities, p)) {
			return g.Why, true
		}
	}
	return "", false
}

// redfishGaps are what BMCs lack by Redfish.
var redfishGaps = []Gap{
	{
		Driver: DriverRedfish, Feature: Console,
		Why: "DSP2046 Manager.SerialConsole and ComputerSystem.SerialConsole name SSH, Telnet and IPMI only: Redfish itself carries no console",
	},
	{
		Driver: DriverRedfish, Personalities: []Personality{IDRAC9, IDRAC10, IDRAC9Early}, Feature: BootMode,
		Why: "docs/field-notes.md, iDRAC: the boot mode changes only through a reboot job, by the BIOS attribute BootMode (capability Settings)",
	},
	{
		Driver: DriverRedfish, Personalities: []Personality{ILO5}, Feature: BootMode,
		Why: "docs/field-notes.md, iLO 5: some iLO 5 cannot switch the boot mode; the personality is one of them",
	},
	{
		Driver: DriverRedfish, Personalities: []Personality{OpenBMC, OpenBMCEarly}, Feature: BootHTTP,
		Why: "bmcweb maps BootSourceOverrideTarget to None, Pxe, Hdd, Diags, Cd, BiosSetup and Usb (redfish-core/lib/systems.hpp)",
	},
	{
		Driver: DriverRedfish, Personalities: []Personality{OpenBMC, OpenBMCEarly}, Feature: Settings,
		Why: "bmcweb Redfish.md: Systems/system/Bios has Actions, Description and Links only, no Attributes",
	},
	{
		Driver: DriverRedfish, Personalities: []Personality{OpenBMC, OpenBMCEarly}, Feature: SecureBoot,
		Why: "bmcweb Redfish.md: Systems/system has no SecureBoot",
	},
	{
		Driver: DriverRedfish, Personalities: []Personality{OpenBMC, OpenBMCEarly}, Feature: UpdateURL,
		Why: "bmcweb has SimpleUpdate only where built with insecure-tftp-update or for HTTPS pulls; the usual build pushes (redfish-core/lib/update_service.hpp)",
	},
	{
		Driver: DriverRedfish, Personalities: []Personality{SupermicroX11}, Feature: BootHTTP,
		Why: "X11 lists None, Pxe, Hdd, Diags, CD/DVD, BiosSetup, Floppy, UsbKey, UsbHdd, UsbCd and their UEFI forms as boot targets, no UefiHttp",
	},
	{
		Driver: DriverRedfish, Personalities: []Personality{SupermicroX11}, Feature: SecureBoot,
		Why: "X11 speaks Redfish 1.0.1; the SecureBoot resource came with DSP8010 2016.1",
	},
	{
		Driver: DriverRedfish, Personalities: []Personality{SupermicroX11}, Feature: UpdatePush,
		Why: "MultipartHttpPushUri came with UpdateService 1.6 (DSP2046, 2019.2); X11 has neither that nor HttpPushUri, SimpleUpdate alone",
	},
}
