// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/agentapi"
)

// firmware is what speaks DHCP on the server right now.
type firmware int

const (
	// plain is an operating system: it wants an address only.
	plain firmware = iota
	// agent is Ingot's own.
	agent
	// biosROM is a BIOS PXE ROM.
	biosROM
	// uefiX64 and uefiARM64 are the PXE drivers of 64-bit UEFI, x86 and Arm.
	uefiX64
	uefiARM64
	// httpX64 and httpARM64 are the HTTP boot drivers of the same.
	httpX64
	httpARM64
	// ipxe is iPXE on any, as a ROM or loaded by one of those before.
	ipxe
	// uBoot is U-Boot on 64-bit Arm.
	uBoot
	// unsupported is a network boot client for which there is no loader.
	unsupported
)

// firmwares is how many there are.
const firmwares = unsupported + 1

func (f firmware) String() string {
	return [firmwares]string{"plain", "agent", "BIOS", "UEFI x64", "UEFI arm64", "UEFI x64 HTTP", "UEFI arm64 HTTP",
		"iPXE", "U-Boot", "unsupported firmware"}[f]
}

const (
	classPXE   = "PXEClient"
	classHTTP  = "HTTPClient"
	classUBoot = "U-Boot"
	// optionIPXE is iPXE's own encapsulated option space.
	optionIPXE = 175
	// optionNoProxy, inside 175: do not wait for a proxyDHCP server. Saves 2
	// to 3 s a boot.
	optionNoProxy = 176
	// featureHTTP, inside 175: this build has HTTP.
	featureHTTP = 19
)

// identify reads options 60 (vendor class), 77 (user class), 93 (client
// architecture, RFC 4578 §2.1 and IANA's registry) and 175.
func identify(req *dhcpv4.DHCPv4) firmware {
	class := req.ClassIdentifier()
	switch {
	case isIPXE(req):
		if isWithoutHTTP(req) {
			return pxeFor(req.ClientArch(), false) // its own loader, which has HTTP
		}
		return ipxe
	case class == agentapi.VendorClass:
		return agent
	case strings.HasPrefix(class, classUBoot):
		return uBootFor(req.ClientArch())
	case strings.HasPrefix(class, classPXE), strings.HasPrefix(class, classHTTP):
		return pxeFor(req.ClientArch(), strings.HasPrefix(class, classHTTP))
	}
	return plain
}

// pxeFor is the firmware behind the class PXEClient or HTTPClient. Architecture
// 7 is registered as "x64 UEFI" by a correction: RFC 4578 calls it "EBC", and 9
// is what erratum 4625 makes of it. Firmware sends either.
func pxeFor(archs []iana.Arch, http bool) firmware {
	arch := iana.INTEL_X86PC // a ROM older than option 93
	if len(archs) > 0 {
		arch = archs[0]
	}
	switch {
	case !http && arch == iana.INTEL_X86PC:
		return biosROM
	case !http && (arch == iana.EFI_X86_64 || arch == iana.EFI_BC):
		return uefiX64
	case !http && arch == iana.EFI_ARM64:
		return uefiARM64
	case !http && arch == iana.UBOOT_ARM64:
		return uBoot
	case http && arch == iana.EFI_X86_64_HTTP:
		return httpX64
	case http && arch == iana.EFI_ARM64_HTTP:
		return httpARM64
	}
	return unsupported
}

// uBootFor is U-Boot by its own class: on 64-bit Arm, as most that say nothing
// more are, or on something else.
func uBootFor(archs []iana.Arch) firmware {
	if len(archs) > 0 && archs[0] != iana.UBOOT_ARM64 && archs[0] != iana.EFI_ARM64 {
		return unsupported
	}
	return uBoot
}

// isIPXE reports iPXE and what it comes from (gPXE, Etherboot), by user class or by their
// own option.
func isIPXE(req *dhcpv4.DHCPv4) bool {
	switch userClass(req) {
	case "iPXE", "gPXE", "Etherboot":
		return true
	}
	return req.Options.Has(dhcpv4.GenericOptionCode(optionIPXE))
}

// userClass is option 77, which comes raw, as iPXE sends it, or with the length byte of RFC
// 3004.
func userClass(req *dhcpv4.DHCPv4) string {
	value := req.Options.Get(dhcpv4.OptionUserClassInformation)
	if len(value) > 1 && int(value[0]) == len(value)-1 {
		value = value[1:]
	}
	return string(value)
}

// isWithoutHTTP reports builds that cannot run the boot script: those that do not list HTTP
// among their features, and gPXE and Etherboot, whose scripts are others. A client that lists
// no features at all is taken for a full iPXE.
func isWithoutHTTP(req *dhcpv4.DHCPv4) bool {
	if name := userClass(req); name == "gPXE" || name == "Etherboot" {
		return true
	}
	features := req.Options.Get(dhcpv4.GenericOptionCode(optionIPXE))
	return len(features) > 0 && suboption(features, featureHTTP) == nil
}
