// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import (
	"slices"

	"github.com/ingot-metal/ingot/bmc"
)

// Personality names the behavior of a BMC: a vendor's Redfish, or an independent implementation
// of IPMI.
type Personality string

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
	// IDRAC9Early and OpenBMCEarly lack MultipartHttpPushUri and accept images at their
	// HttpPushUri (DSP2062, HTTP push updates), each in its own form.
	IDRAC9Early  Personality = "iDRAC9-3.36"
	OpenBMCEarly Personality = "OpenBMC-2.8"
	// BasicOnly has no session service, only Basic authentication, like sushy-tools.
	BasicOnly Personality = "BasicOnly"
	// MegaRAC is AMI's firmware on boards of other vendors, with weak ETags and without a
	// settings object in Bios.
	MegaRAC Personality = "MegaRAC"
	// SushyTools is a Redfish emulator, with its fake driver.
	SushyTools Personality = "sushy-tools"
	// IPMISim is OpenIPMI's ipmi_sim, GoIPMI the simulator of go-ipmi, and Pyghmi the server of
	// pyghmi, which VirtualBMC uses.
	IPMISim Personality = "ipmi_sim"
	GoIPMI  Personality = "go-ipmi"
	Pyghmi  Personality = "pyghmi"
)

// Personalities returns those of a driver, in the order of the matrix.
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

// Feature is a column of the matrix: a capability, or a part of one that some BMCs lack.
type Feature string

// The features, with their capability if the names differ.
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

// CapabilityOf returns the capability that a feature belongs to.
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
	// Personalities are the affected ones; empty: all of the driver.
	Personalities []Personality
	Feature       Feature
	// Reason is the reason with its source.
	Reason string
}

// Unsupported returns why a cell may be "not supported". All cells without a Gap must work.
func Unsupported(driver string, p Personality, f Feature) (why string, ok bool) {
	for _, g := range slices.Concat(redfishGaps, sushyGaps, ipmiGaps, pyghmiGaps, vendorGaps) {
		same := g.Driver == driver || g.Driver == DriverRedfish && overRedfish(driver, f)
		if same && g.Feature == f && (len(g.Personalities) == 0 || slices.Contains(g.Personalities, p)) {
			return g.Reason, true
		}
	}
	return "", false
}

// redfishGaps are features that BMCs lack with Redfish.
var redfishGaps = slices.Concat(
	gaps(DriverRedfish, nil, "DSP2046 Manager.SerialConsole and ComputerSystem.SerialConsole name only SSH, Telnet and IPMI: Redfish itself has no console", Console),
	gaps(DriverRedfish, []Personality{IDRAC9, IDRAC10, IDRAC9Early}, "docs/field-notes.md, iDRAC: the boot mode changes only through a reboot job, by the BIOS attribute BootMode (capability Settings)", BootMode),
	gaps(DriverRedfish, []Personality{ILO5}, "docs/field-notes.md, iLO 5: some iLO 5 cannot change the boot mode; this personality simulates one of them", BootMode),
	gaps(DriverRedfish, []Personality{OpenBMC, OpenBMCEarly}, "bmcweb maps BootSourceOverrideTarget to None, Pxe, Hdd, Diags, Cd, BiosSetup and Usb (redfish-core/lib/systems.hpp)", BootHTTP),
	gaps(DriverRedfish, []Personality{OpenBMC, OpenBMCEarly}, "bmcweb Redfish.md: Systems/system/Bios has only Actions, Description and Links, no Attributes", Settings),
	gaps(DriverRedfish, []Personality{OpenBMC, OpenBMCEarly}, "bmcweb Redfish.md: Systems/system has no SecureBoot", SecureBoot),
	gaps(DriverRedfish, []Personality{OpenBMC, OpenBMCEarly}, "bmcweb has SimpleUpdate only if built with insecure-tftp-update or for HTTPS pulls; the usual build supports push (redfish-core/lib/update_service.hpp)", UpdateURL),
	gaps(DriverRedfish, []Personality{SupermicroX11}, "X11 lists None, Pxe, Hdd, Diags, CD/DVD, BiosSetup, Floppy, UsbKey, UsbHdd, UsbCd and their UEFI forms as boot targets, no UefiHttp", BootHTTP),
	gaps(DriverRedfish, []Personality{SupermicroX11}, "X11 has Redfish 1.0.1; the SecureBoot resource came with DSP8010 2016.1", SecureBoot),
	gaps(DriverRedfish, []Personality{SupermicroX11}, "MultipartHttpPushUri came with UpdateService 1.6 (DSP2046, 2019.2); X11 has only SimpleUpdate, and no HttpPushUri", UpdatePush),
)
