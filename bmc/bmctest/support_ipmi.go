// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

// ipmiGaps are what BMCs lack by IPMI ("IPMI" below is the specification, second
// generation v2.0).
var ipmiGaps = []Gap{
	{Driver: DriverIPMI, Feature: BootHTTP, Why: "IPMI §28.13 table 28-14: no boot device selector for HTTP, no place for a URL"},
	{Driver: DriverIPMI, Feature: Media, Why: "IPMI has no command that inserts virtual media"},
	{Driver: DriverIPMI, Feature: Settings, Why: "IPMI has no command for firmware settings"},
	{Driver: DriverIPMI, Feature: UpdateURL, Why: "IPMI leaves firmware update to others (PICMG HPM.1)"},
	{Driver: DriverIPMI, Feature: UpdatePush, Why: "IPMI leaves firmware update to others (PICMG HPM.1)"},
	{Driver: DriverIPMI, Feature: SecureBoot, Why: "IPMI has no command for Secure Boot"},
}
