// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

import "slices"

// ipmiGaps are features that BMCs lack with IPMI v2.0 ("IPMI" below is the
// specification). Those of ipmi_sim were verified with ipmitool.
var ipmiGaps = slices.Concat(
	gaps(DriverIPMI, nil, "IPMI §28.13 table 28-14: no boot device selector for HTTP, and no URL", BootHTTP),
	gaps(DriverIPMI, nil, "IPMI has no command that inserts virtual media", Media),
	gaps(DriverIPMI, nil, "IPMI has no command for firmware settings", Settings),
	gaps(DriverIPMI, nil, "IPMI leaves firmware updates to other standards (PICMG HPM.1)", UpdateURL, UpdatePush),
	gaps(DriverIPMI, nil, "IPMI has no command for Secure Boot", SecureBoot),
	gaps(DriverIPMI, []Personality{IPMISim}, "ipmi_sim 2.0.33 stores only the device selector: boot option 5, written as E0 04, reads 00 04, which is neither valid nor persistent (§28.13 table 28-14)", Boot),
	gaps(DriverIPMI, []Personality{IPMISim}, "ipmi_sim 2.0.33 loses the EFI bit of boot option 5 (§28.13 table 28-14)", BootMode),
	gaps(DriverIPMI, []Personality{IPMISim}, "ipmi_sim 2.0.33 loses the validity of boot option 5, as for Boot", BootCD, BootSetup),
	gaps(DriverIPMI, []Personality{IPMISim}, "ipmi_sim 2.0.33 accepts Chassis Identify, but Get Chassis Status reads 00 in byte 3: bit 6 means that the state is not reported (§28.2 table 28-3)", Indicator),
	gaps(DriverIPMI, []Personality{IPMISim}, "ipmi_sim 2.0.33 answers Cold Reset (§20.2) with C1h, although ipmitool reports that it was sent", Reset),
)
