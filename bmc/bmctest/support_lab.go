// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import "slices"

// sushyGaps are what sushy-tools lacks with its fake driver (paths are of its source, commit
// 2b51921).
var sushyGaps = slices.Concat(
	gapsOf(DriverRedfish, SushyTools, "emulator/templates/system.json lists the boot targets Pxe, Cd, Hdd and UefiHttp", BootSetup),
	gapsOf(DriverRedfish, SushyTools, "emulator/main.py makes UefiHttp a CD with the image at HttpBootUri, or Pxe without one, and shows that", BootHTTP),
	gapsOf(DriverRedfish, SushyTools, "the fake driver has no BIOS; that of libvirt is in bmc/redfish TestSushyBIOS", Settings),
	gapsOf(DriverRedfish, SushyTools, "UpdateService (since 1.2) links a FirmwareInventory that is not there, and counts a made-up BIOS version", Versions, UpdateURL, UpdatePush),
	gapsOf(DriverRedfish, SushyTools, "there are no such resources below emulator/templates", EventLog, Accounts),
	gapsOf(DriverRedfish, SushyTools, "the manager in emulator/main.py has no actions", Reset),
)

// pyghmiGaps are what pyghmi's server 1.5.34 lacks (paths are of its source).
var pyghmiGaps = slices.Concat(
	gapsOf(DriverIPMI, Pyghmi, "ipmi/bmc.py keeps the boot device alone: boot option 5, written as A0 04, reads 80 04, so that UEFI is ErrNotApplied", BootMode),
	gapsOf(DriverIPMI, Pyghmi, "ipmi/bmc.py has the commands Get Device ID, Cold Reset, Get Chassis Status, Chassis Control and those of the boot options and the console",
		EventLog, Accounts, Indicator),
	gapsOf(DriverIPMI, Pyghmi, "VirtualBMC sets no iohandler, and Activate Payload answers 81h", Console),
)

// gapsOf are features that one personality of a driver lacks for one reason.
func gapsOf(driver string, p Personality, why string, features ...Feature) []Gap {
	list := gaps(driver, why, features...)
	for i := range list {
		list[i].Personalities = []Personality{p}
	}
	return list
}
