// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"slices"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

// TestTable tests the whole table as the page on networks shows it: firmware × mode × plan →
// file, "address" for an answer without a file, or "-" for silence.
func TestTable(t *testing.T) {
	const url = "http://192.0.2.1:8880/"
	script := url + "boot/52:54:00:12:34:56/script.ipxe"
	leave := url + BootFromDisk
	for _, tc := range []struct {
		firmware firmware
		// reserve, from disk and agent; proxy, from disk and agent
		want [4]string
	}{
		{plain, [4]string{"address", "address", "-", "-"}},
		{agent, [4]string{"address", "address", "-", "address"}},
		{biosROM, [4]string{"address", "undionly.kpxe", "-", "undionly.kpxe"}},
		{uefiX64, [4]string{BootFromDisk, "snponly.efi", BootFromDisk, "snponly.efi"}},
		{uefiARM64, [4]string{BootFromDisk, "snponly-arm64.efi", BootFromDisk, "snponly-arm64.efi"}},
		{httpX64, [4]string{leave, url + "snponly.efi", leave, url + "snponly.efi"}},
		{httpARM64, [4]string{leave, url + "snponly-arm64.efi", leave, url + "snponly-arm64.efi"}},
		{ipxe, [4]string{script, script, script, script}},
		{uBoot, [4]string{"address", "snponly-arm64.efi", "-", "-"}},
		{unsupported, [4]string{"address", "-", "-", "-"}},
	} {
		t.Run(tc.firmware.String(), func(t *testing.T) {
			i := 0
			for _, mode := range []pxe.Mode{pxe.Reserve, pxe.Proxy} {
				for _, plan := range []pxe.PlanKind{pxe.LocalDisk, pxe.Agent} {
					host := testHost(plan)
					host.Mode = mode
					if got := cellOf(testIdentity.bootFor(tc.firmware, host)); got != tc.want[i] {
						t.Errorf("%s, %s: got %s, want %s", mode, plan, got, tc.want[i])
					}
					i++
				}
				host := testHost(pxe.None)
				host.Mode = mode
				if got := cellOf(testIdentity.bootFor(tc.firmware, host)); got != "-" {
					t.Errorf("%s, None: got %s", mode, got)
				}
			}
		})
	}
}

func cellOf(b boot) string {
	switch {
	case !b.answer:
		return "-"
	case b.file == "":
		return "address"
	}
	return b.file
}

func TestIdentify(t *testing.T) {
	arch := func(n byte) dhcpv4.Modifier { return option(93, 0, n) }
	for _, tc := range []struct {
		name string
		in   []dhcpv4.Modifier
		want firmware
	}{
		{"an operating system", nil, plain},
		{"systemd", []dhcpv4.Modifier{class("anaconda-Linux")}, plain},
		{"our agent", []dhcpv4.Modifier{class("IngotAgent")}, agent},
		{"a ROM older than option 93", []dhcpv4.Modifier{class("PXEClient")}, biosROM},
		{"BIOS", []dhcpv4.Modifier{class("PXEClient:Arch:00000:UNDI:002001"), arch(0)}, biosROM},
		{"x64", []dhcpv4.Modifier{class("PXEClient:Arch:00007:UNDI:003000"), arch(7)}, uefiX64},
		{"x64, by the erratum", []dhcpv4.Modifier{class("PXEClient:Arch:00009:UNDI:003000"), arch(9)}, uefiX64},
		{"arm64", []dhcpv4.Modifier{class("PXEClient:Arch:00011:UNDI:003000"), arch(11)}, uefiARM64},
		{"32-bit", []dhcpv4.Modifier{class("PXEClient:Arch:00006:UNDI:003000"), arch(6)}, unsupported},
		{"RISC-V", []dhcpv4.Modifier{class("PXEClient:Arch:00027:UNDI:003000"), arch(27)}, unsupported},
		{"HTTP x64", []dhcpv4.Modifier{class("HTTPClient:Arch:00016:UNDI:003000"), arch(16)}, httpX64},
		{"HTTP arm64", []dhcpv4.Modifier{class("HTTPClient:Arch:00019:UNDI:003000"), arch(19)}, httpARM64},
		{"HTTP 32-bit", []dhcpv4.Modifier{class("HTTPClient:Arch:00015:UNDI:003000"), arch(15)}, unsupported},
		{"HTTP with an architecture of PXE", []dhcpv4.Modifier{class("HTTPClient"), arch(7)}, unsupported},
		{"iPXE, raw", []dhcpv4.Modifier{class("PXEClient:Arch:00000:UNDI:002001"), option(77, []byte("iPXE")...)}, ipxe},
		{"iPXE, with a length", []dhcpv4.Modifier{option(77, []byte("\x04iPXE")...)}, ipxe},
		{"iPXE on arm64, by its option", []dhcpv4.Modifier{class("PXEClient:Arch:00011:UNDI:003010"), arch(11), option(175, 1, 1, 1, 19, 1, 1)}, ipxe},
		{"iPXE without HTTP", []dhcpv4.Modifier{class("PXEClient:Arch:00000:UNDI:002001"), arch(0), option(77, []byte("iPXE")...), option(175, 1, 1, 1, 17, 1, 1)}, biosROM},
		{"iPXE without HTTP, UEFI", []dhcpv4.Modifier{class("PXEClient:Arch:00007:UNDI:003010"), arch(7), option(77, []byte("iPXE")...), option(175, 17, 1, 1)}, uefiX64},
		{"a ROM that is no iPXE by its class, without HTTP", []dhcpv4.Modifier{class("PXEClient:Arch:00011:UNDI:003010"), arch(11), option(175, 1, 1, 1)}, uefiARM64},
		{"iPXE whose features break off", []dhcpv4.Modifier{option(77, []byte("iPXE")...), option(175, 19, 9)}, biosROM},
		{"gPXE with HTTP", []dhcpv4.Modifier{class("PXEClient:Arch:00000:UNDI:002001"), arch(0), option(77, []byte("gPXE")...), option(175, 19, 1, 1)}, biosROM},
		{"Etherboot", []dhcpv4.Modifier{class("Etherboot-5.4"), option(77, []byte("Etherboot")...), option(175, 1, 1, 1)}, biosROM},
		{"another user class", []dhcpv4.Modifier{option(77, []byte("RRAS")...)}, plain},
		{"U-Boot", []dhcpv4.Modifier{class("U-Boot.armv8")}, uBoot},
		{"U-Boot, arm64", []dhcpv4.Modifier{class("U-Boot"), arch(22)}, uBoot},
		{"U-Boot, arm32", []dhcpv4.Modifier{class("U-Boot.armv7"), arch(21)}, unsupported},
		{"U-Boot under PXE's name", []dhcpv4.Modifier{class("PXEClient:Arch:00022:UNDI:003000"), arch(22)}, uBoot},
		{"half an architecture", []dhcpv4.Modifier{class("PXEClient"), option(93, 7)}, biosROM},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := identify(message(dhcpv4.MessageTypeDiscover, tc.in...)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// A full loader is used if it exists, and no reply names a missing file.
func TestLoaders(t *testing.T) {
	for _, tc := range []struct {
		name string
		have string
		size pxe.Loader
		fw   firmware
		want string
	}{
		{"small", "undionly.kpxe ipxe.pxe", pxe.SmallLoader, biosROM, "undionly.kpxe"},
		{"full", "undionly.kpxe ipxe.pxe", pxe.FullLoader, biosROM, "ipxe.pxe"},
		{"no full one", "undionly.kpxe", pxe.FullLoader, biosROM, "undionly.kpxe"},
		{"full by HTTP", "snponly.efi ipxe.efi", pxe.FullLoader, httpX64, "http://192.0.2.1:8880/ipxe.efi"},
		{"full for U-Boot", "snponly-arm64.efi ipxe-arm64.efi", pxe.FullLoader, uBoot, "ipxe-arm64.efi"},
		{"signed", "snponly.efi ipxe.efi shimx64.efi", pxe.SignedLoader, uefiX64, "shimx64.efi"},
		{"signed by HTTP", "snponly.efi shimx64.efi", pxe.SignedLoader, httpX64, "-"},
		{"signed for Arm", "snponly.efi snponly-arm64.efi shimx64.efi", pxe.SignedLoader, uefiARM64, "-"},
		{"signed for BIOS", "undionly.kpxe shimx64.efi", pxe.SignedLoader, biosROM, "-"},
		{"no signed one", "snponly.efi", pxe.SignedLoader, uefiX64, "-"},
		{"none for Arm", "undionly.kpxe snponly.efi", pxe.SmallLoader, uefiARM64, "-"},
		{"none for Arm by HTTP", "undionly.kpxe snponly.efi", pxe.FullLoader, httpARM64, "-"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			id := testIdentity
			have := strings.Fields(tc.have)
			id.Loaders = DefaultLoaders().Keep(func(name string) bool { return slices.Contains(have, name) })
			if got := len(id.Loaders.Names()); got != len(have) {
				t.Errorf("kept %v of %v", id.Loaders.Names(), have)
			}
			host := testHost(pxe.Agent)
			host.Loader = tc.size
			b := id.bootFor(tc.fw, host)
			if got := cellOf(b); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if tc.want == "-" && !strings.Contains(b.why, "boot loader for") {
				t.Errorf("the reason is %q", b.why)
			}
		})
	}
}

// A host whose BMC sets the boot method gets the agent by that method only: from a CD image
// nothing by DHCP, by HTTP its unified kernel image. All else is answered as a boot from disk.
func TestBootMethods(t *testing.T) {
	unified := pxe.File{SHA256: strings.Repeat("a", 64), Name: "agent.efi"}
	for fw := range firmwares {
		for _, mode := range []pxe.Mode{pxe.Reserve, pxe.Proxy} {
			host := testHost(pxe.LocalDisk)
			host.Mode = mode
			disk := cellOf(testIdentity.bootFor(fw, host))
			host.Plan.Kind = pxe.Agent
			network := cellOf(testIdentity.bootFor(fw, host))
			for _, way := range []pxe.BootMethod{pxe.BootVirtualMedia, pxe.BootHTTP} {
				for _, file := range []pxe.File{{}, unified} {
					host.Plan.Agent.Method, host.Plan.Agent.Unified = way, file
					want := disk
					switch {
					case fw == agent:
						want = network // its own exchange
					case fw == httpX64 && way == pxe.BootHTTP && file == unified:
						want = "http://192.0.2.1:8880/boot/52:54:00:12:34:56/agent.efi"
					}
					if got := cellOf(testIdentity.bootFor(fw, host)); got != want {
						t.Errorf("%s, %s, %s, image %q: got %q, want %q", fw, mode, way, file.Name, got, want)
					}
				}
			}
		}
	}
}

// An agent from a CD image gets the manager's address but no token, even if the directory has one.
func TestAgentFromCDGetsNoToken(t *testing.T) {
	asked := option(55, agentapi.OptionServer, agentapi.OptionPin, agentapi.OptionToken, agentapi.OptionFiles)
	for way, want := range map[pxe.BootMethod]bool{pxe.BootNetwork: true, pxe.BootHTTP: true, pxe.BootVirtualMedia: false} {
		t.Run(way.String(), func(t *testing.T) {
			host := testHost(pxe.Agent)
			host.Plan.Agent.Method = way
			for _, in := range []*dhcpv4.DHCPv4{
				message(dhcpv4.MessageTypeDiscover, class(agentapi.VendorClass), asked),
				message(dhcpv4.MessageTypeInform, class(agentapi.VendorClass), asked, ciaddr(right)),
			} {
				a, err := Reply(testIdentity, directory(host), Query{Packet: in.ToBytes()})
				if err != nil {
					t.Fatal(err)
				}
				r, err := dhcpv4.FromBytes(a.Packet)
				if err != nil {
					t.Fatal(err)
				}
				for _, code := range []uint8{agentapi.OptionServer, agentapi.OptionPin, agentapi.OptionFiles} {
					if !r.Options.Has(dhcpv4.GenericOptionCode(code)) {
						t.Errorf("%s: option %d is missing", in.MessageType(), code)
					}
				}
				if got := r.Options.Has(dhcpv4.GenericOptionCode(agentapi.OptionToken)); got != want {
					t.Errorf("%s: the token is sent: %v, want %v", in.MessageType(), got, want)
				}
			}
		})
	}
}
