// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"strings"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

// Client is a booting client as it describes itself in DHCPv4 or DHCPv6.
type Client struct {
	// Class is the vendor class, UserClass the user class; empty means absent.
	Class, UserClass string
	// Archs are the client architectures with IANA's numbers.
	Archs []uint16
}

// BootFile is the boot table's result for a Client.
type BootFile struct {
	// Firmware describes the client, for people. Agent is true for Ingot's agent, System
	// for an operating system.
	Firmware      string
	Agent, System bool
	// Name is a URL or the name of a TFTP file; empty means nothing to boot.
	Name string
	// Silent means that the server should not answer. Why is the reason.
	Silent bool
	Why    string
}

// BootFile looks up the boot table for a client that gets its address from Ingot or needs
// none. DHCPv6 uses it, too, so that both protocols share one table.
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
	case len(archs) > 0: // RFC 5970 section 3.3 requires no class
		return pxeFor(archs, archs[0] == iana.EFI_X86_64_HTTP || archs[0] == iana.EFI_ARM64_HTTP)
	}
	return plain
}
