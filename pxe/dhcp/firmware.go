// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/agentapi"
)

type firmware int

const (
	// plain is an operating system, which only needs an address.
	plain firmware = iota
	agent
	biosROM
	// uefiX64 and uefiARM64 are the PXE drivers of 64-bit UEFI.
	uefiX64
	uefiARM64
	// httpX64 and httpARM64 are the HTTP boot drivers of 64-bit UEFI.
	httpX64
	httpARM64
	// ipxe is iPXE, as a ROM or as a loaded program.
	ipxe
	// uBoot is U-Boot on 64-bit Arm.
	uBoot
	// unsupported is a network boot client without a loader.
	unsupported
)

const firmwares = unsupported + 1

func (f firmware) String() string {
	return [firmwares]string{"plain", "agent", "BIOS", "UEFI x64", "UEFI arm64", "UEFI x64 HTTP", "UEFI arm64 HTTP",
		"iPXE", "U-Boot", "unsupported firmware"}[f]
}

const (
	classPXE   = "PXEClient"
	classHTTP  = "HTTPClient"
	classUBoot = "U-Boot"
	// optionIPXE is the option that encapsulates iPXE's own options.
	optionIPXE = 175
	// optionNoProxy in optionIPXE: do not wait for a proxyDHCP server. It saves 2 to 3 s per boot.
	optionNoProxy = 176
	// featureHTTP in optionIPXE: this build supports HTTP.
	featureHTTP = 19
)

// identify reads options 60 (vendor class), 77 (user class), 93 (client architecture, RFC
// 4578 section 2.1 and IANA's registry) and 175.
func identify(req *dhcpv4.DHCPv4) firmware {
	class := req.ClassIdentifier()
	switch {
	case isIPXE(req):
		if isWithoutHTTP(req) {
			return pxeFor(req.ClientArch(), false) // gets our iPXE, which has HTTP
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

// pxeFor returns the firmware of a client with class PXEClient or HTTPClient. Firmware for x64
// UEFI sends architecture 7 or 9: RFC 4578 calls 7 "EBC", IANA's registry calls it "x64 UEFI",
// and erratum 4625 assigns 9.
func pxeFor(archs []iana.Arch, http bool) firmware {
	arch := iana.INTEL_X86PC // ROMs older than option 93
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

// uBootFor returns the firmware of a client with U-Boot's own class. U-Boot on 64-bit Arm
// usually sends no architecture.
func uBootFor(archs []iana.Arch) firmware {
	if len(archs) > 0 && archs[0] != iana.UBOOT_ARM64 && archs[0] != iana.EFI_ARM64 {
		return unsupported
	}
	return uBoot
}

// isIPXE reports whether the client is iPXE or one of its ancestors (gPXE, Etherboot).
func isIPXE(req *dhcpv4.DHCPv4) bool {
	switch userClass(req) {
	case "iPXE", "gPXE", "Etherboot":
		return true
	}
	return req.Options.Has(dhcpv4.GenericOptionCode(optionIPXE))
}

// userClass returns option 77. iPXE sends the plain string, and other clients prefix a length
// byte (RFC 3004).
func userClass(req *dhcpv4.DHCPv4) string {
	value := req.Options.Get(dhcpv4.OptionUserClassInformation)
	if len(value) > 1 && int(value[0]) == len(value)-1 {
		value = value[1:]
	}
	return string(value)
}

// isWithoutHTTP reports whether an iPXE build cannot run the boot script: its feature list
// lacks HTTP, or it is gPXE or Etherboot, which have other script commands. A client without
// a feature list counts as a full iPXE.
func isWithoutHTTP(req *dhcpv4.DHCPv4) bool {
	if name := userClass(req); name == "gPXE" || name == "Etherboot" {
		return true
	}
	features := req.Options.Get(dhcpv4.GenericOptionCode(optionIPXE))
	return len(features) > 0 && suboption(features, featureHTTP) == nil
}
