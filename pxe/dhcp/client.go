// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"strings"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

// Client is what boots, as it says in either version of DHCP.
type Client struct {
	// Class is the vendor class, UserClass the user class; empty: not said.
	Class, UserClass string
	// Archs are the client architectures, as IANA numbers them.
	Archs []uint16
}

// BootFile is what the table of answers says for a Client.
type BootFile struct {
	// Firmware names the client, for people. Agent: it is Ingot's agent. System: it is an
	// operating system.
	Firmware      string
	Agent, System bool
	// Name is a URL, or a file's name on the TFTP server; empty: nothing to boot.
	Name string
	// Silent: the best answer is none, because of Why.
	Silent bool
	Why    string
}

// BootFile reads the table for a client that gets its address from Ingot, or needs
// none: the one table of DHCP for IPv4 serves DHCPv6 too.
func (id Identity) BootFile(c Client, host pxe.Host) BootFile {
	host.Mode = pxe.Reserve
	fw := c.firmware()
	b := id.bootFor(fw, host)
	return BootFile{Firmware: fw.String(), Agent: fw == agent, System: fw == plain, Name: b.file, Silent: !b.answer, Why: b.why}
}

func (c Client) firmware() firmware {
	var archs []iana.Arch
	for _, arch := range c.Archs {
		archs = append(archs, iana.Arch(arch))
	}
	switch {
	case c.UserClass == "iPXE":
		return ipxe
	case c.Class == agentapi.VendorClass:
		return agent
	case strings.HasPrefix(c.Class, classUBoot):
		return uBootFor(archs)
	case strings.HasPrefix(c.Class, classPXE), strings.HasPrefix(c.Class, classHTTP):
		return pxeFor(archs, strings.HasPrefix(c.Class, classHTTP))
	case len(archs) > 0: // RFC 5970 §3.3 asks for no class
		return pxeFor(archs, archs[0] == iana.EFI_X86_64_HTTP || archs[0] == iana.EFI_ARM64_HTTP)
	}
	return plain
}
