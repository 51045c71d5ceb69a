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

	// What the two independent BMCs lack of it, seen with ipmitool.
	{
		Driver: DriverIPMI, Personalities: []Personality{IPMISim}, Feature: Boot,
		Why: "ipmi_sim 2.0.33 keeps the device selector only: boot option 5, written as E0 04, reads 00 04: neither valid nor persistent (§28.13 table 28-14), so that the read-back is ErrNotApplied",
	},
	{
		Driver: DriverIPMI, Personalities: []Personality{IPMISim}, Feature: BootMode,
		Why: "ipmi_sim 2.0.33 loses the EFI bit of boot option 5 (§28.13 table 28-14)",
	},
	{
		Driver: DriverIPMI, Personalities: []Personality{IPMISim}, Feature: BootCD,
		Why: "ipmi_sim 2.0.33 loses the validity of boot option 5, as for Boot",
	},
	{
		Driver: DriverIPMI, Personalities: []Personality{IPMISim}, Feature: BootSetup,
		Why: "ipmi_sim 2.0.33 loses the validity of boot option 5, as for Boot",
	},
	{
		Driver: DriverIPMI, Personalities: []Personality{IPMISim}, Feature: Indicator,
		Why: "ipmi_sim 2.0.33 takes Chassis Identify, but Get Chassis Status reads 00 in byte 3: bit 6 says that the state is not told (§28.2 table 28-3)",
	},
	{
		Driver: DriverIPMI, Personalities: []Personality{IPMISim}, Feature: Reset,
		Why: "ipmi_sim 2.0.33 answers Cold Reset (§20.2) with C1h, though ipmitool says that it was sent",
	},
}
