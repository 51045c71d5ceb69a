// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import "slices"

// sushyGaps are the gaps of sushy-tools with its fake driver (paths are of its source, commit
// 2b51921).
var sushyGaps = slices.Concat(
	gaps(DriverRedfish, []Personality{SushyTools}, "emulator/templates/system.json lists the boot targets Pxe, Cd, Hdd and UefiHttp", BootSetup),
	gaps(DriverRedfish, []Personality{SushyTools}, "emulator/main.py replaces UefiHttp by Cd with the image at HttpBootUri, or by Pxe without one", BootHTTP),
	gaps(DriverRedfish, []Personality{SushyTools}, "the fake driver has no BIOS; that of libvirt is in bmc/redfish TestSushyBIOS", Settings),
	gaps(DriverRedfish, []Personality{SushyTools}, "UpdateService (since 1.2) links a missing FirmwareInventory and increments an invented BIOS version", Versions, UpdateURL, UpdatePush),
	gaps(DriverRedfish, []Personality{SushyTools}, "emulator/templates has no such resources", EventLog, Accounts),
	gaps(DriverRedfish, []Personality{SushyTools}, "the manager in emulator/main.py has no actions", Reset),
)

// pyghmiGaps are the gaps of pyghmi's server 1.5.34 (paths are of its source).
var pyghmiGaps = slices.Concat(
	gaps(DriverIPMI, []Personality{Pyghmi}, "ipmi/bmc.py stores only the boot device: boot option 5, written as A0 04, reads 80 04", BootMode),
	gaps(DriverIPMI, []Personality{Pyghmi}, "ipmi/bmc.py has the commands Get Device ID, Cold Reset, Get Chassis Status, Chassis Control and those of the boot options and the console",
		EventLog, Accounts, Indicator),
	gaps(DriverIPMI, []Personality{Pyghmi}, "VirtualBMC sets no iohandler, and Activate Payload answers 81h", Console),
)
