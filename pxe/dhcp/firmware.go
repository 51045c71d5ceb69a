// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"bytes"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/pxe"
)

// firmware is what speaks DHCP on the server right now.
type firmware int

const (
	// plain is an operating system, or our agent: it wants an address only.
	plain firmware = iota
	// biosROM is a BIOS PXE ROM.
	biosROM
	// uefiX64 is the PXE driver of 64-bit x86 UEFI.
	uefiX64
	// uefiHTTP is the HTTP boot driver of the same.
	uefiHTTP
	// ipxe is iPXE on either, as a ROM or loaded by one of the two before.
	ipxe
	// unsupported is a network boot client for which there is no loader.
	unsupported
)

func (f firmware) String() string {
	return [...]string{"plain", "BIOS", "UEFI x64", "UEFI x64 HTTP", "iPXE", "unsupported firmware"}[f]
}

const (
	classPXE  = "PXEClient"
	classHTTP = "HTTPClient"
	// optionIPXE is iPXE's own encapsulated option space.
	optionIPXE = 175
	// optionNoProxy, inside 175: do not wait for a proxyDHCP server. Saves 2
	// to 3 s a boot.
	optionNoProxy = 176
)

// identify reads options 60 (vendor class), 77 (user class), 93 (client
// architecture, RFC 4578 §2.1) and 175.
func identify(req *dhcpv4.DHCPv4) firmware {
	class := req.ClassIdentifier()
	network := strings.HasPrefix(class, classPXE)
	http := strings.HasPrefix(class, classHTTP)
	if !network && !http && !isIPXE(req) {
		return plain
	}
	arch := iana.INTEL_X86PC // a ROM older than option 93
	if archs := req.ClientArch(); len(archs) > 0 {
		arch = archs[0]
	}
	switch {
	case http && !isIPXE(req) && arch == iana.EFI_X86_64_HTTP:
		return uefiHTTP
	case http && !isIPXE(req):
		return unsupported
	case arch != iana.INTEL_X86PC && arch != iana.EFI_BC && arch != iana.EFI_X86_64:
		return unsupported
	case isIPXE(req):
		return ipxe
	case arch == iana.INTEL_X86PC:
		return biosROM
	}
	// 7 is registered as "EBC", but is what x64 firmware sends; 9 is what RFC
	// 4578 erratum 4625 makes of it.
	return uefiX64
}

// isIPXE knows iPXE by its user class or its own option. The user class comes
// raw, as iPXE sends it, or with the length byte of RFC 3004.
func isIPXE(req *dhcpv4.DHCPv4) bool {
	userClass := req.Options.Get(dhcpv4.OptionUserClassInformation)
	if bytes.Equal(userClass, []byte("iPXE")) || bytes.Equal(userClass, []byte("\x04iPXE")) {
		return true
	}
	return req.Options.Has(dhcpv4.GenericOptionCode(optionIPXE))
}

// Loaders names the iPXE binaries that TFTP serves.
type Loaders struct {
	// BIOS is loaded by PXE ROMs. undionly drives the card through the ROM
	// that loaded it, so it fits any card.
	BIOS string
	// UEFI is loaded by x64 UEFI. snponly does the same there.
	UEFI string
}

// BootFromDisk is the name of a file that is never there. UEFI that is told to
// load it gets a refusal from TFTP or HTTP and goes on to its next boot device; people
// read the name on the console.
const BootFromDisk = "boot-from-disk"

// DebianLoaders are the names in Debian's package ipxe.
var DebianLoaders = Loaders{BIOS: "undionly.kpxe", UEFI: "snponly.efi"}

// boot is what a reply says about booting.
type boot struct {
	// file is option 67 and the BOOTP file field; empty: none.
	file string
	// answer is false when silence is the best answer.
	answer bool
}

// bootFor is the table firmware × plan → answer.
//
//	            | plain        | BIOS          | UEFI x64    | UEFI HTTP  | iPXE       | unsupported
//	None        | silence      | silence       | silence     | silence    | silence    | silence
//	LocalDisk   | address      | address       | no file³    | no file³   | URL¹       | address
//	Agent       | address      | undionly.kpxe | snponly.efi | silence²   | URL        | silence²
//
// An address without a file makes a BIOS ROM go on to the next boot device at
// once (PXE-E53); silence would have it wait its retries out. ¹ the script leaves for the disk. ² there may be a server for it elsewhere,
// and an address without a file would only spend the one-time boot override.
// ³ BootFromDisk: EDK2 does not take an offer without a file, and asks four
// times, for a minute; a file that TFTP or HTTP refuses makes it go on at once.
func (id Identity) bootFor(fw firmware, host pxe.Host) boot {
	switch {
	case host.Plan.Kind != pxe.LocalDisk && host.Plan.Kind != pxe.Agent:
		return boot{}
	case fw == plain:
		return boot{answer: true}
	case fw == ipxe:
		return boot{answer: true, file: id.BaseURL + "/boot/" + host.MAC.String() + "/script.ipxe"}
	case host.Plan.Kind == pxe.LocalDisk && fw == uefiHTTP:
		return boot{answer: true, file: id.BaseURL + "/" + BootFromDisk}
	case host.Plan.Kind == pxe.LocalDisk && fw == uefiX64:
		return boot{answer: true, file: BootFromDisk}
	case host.Plan.Kind == pxe.LocalDisk:
		return boot{answer: true}
	case fw == biosROM:
		return boot{answer: true, file: id.Loaders.BIOS}
	case fw == uefiX64:
		return boot{answer: true, file: id.Loaders.UEFI}
	}
	return boot{}
}
