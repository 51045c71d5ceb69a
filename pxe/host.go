// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package pxe

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// Directory answers what one MAC address is to be given right now. It answers
// from memory and never blocks: a boot request waits for nothing.
// Every method is safe for concurrent use.
type Directory interface {
	// Lookup returns the host that boots from this address. False: the address
	// is unknown, and the boot server stays silent.
	Lookup(mac net.HardwareAddr) (Host, bool)
}

// ImageDirectory answers where an OS image comes from. The boot server fetches
// nothing that it does not name. It answers from memory and never blocks.
type ImageDirectory interface {
	// Image takes a checksum as "sha256:<hex>" or "sha512:<hex>", lower case.
	Image(checksum string) (ImageSource, bool)
}

// ImageSource is an OS image in the world.
type ImageSource struct {
	// URL is http or https.
	URL string
	// Mirrors are other places of the same bytes, the likeliest first.
	Mirrors []string
	// Checksum is "sha256:<hex>" or "sha512:<hex>" of what the URL returns.
	Checksum string
	// Namespaces are those whose claims name the image, each once. They share the cache.
	Namespaces []string
}

// Host is what the boot server needs to know of one server.
type Host struct {
	// Namespace and Name are the IngotHost's, for events and logs only; empty: an
	// unknown machine (Discoverer).
	Namespace, Name string
	// MAC is the boot NIC.
	MAC net.HardwareAddr
	// Network is the name of the network that the host boots on, for events and
	// logs only; Subnet are its IPv4 addresses. Zero Subnet: that of Address.
	Network string
	Subnet  netip.Prefix
	// Mode is how DHCP serves the network.
	Mode Mode
	// Relays are addresses from which relays of the network ask besides those
	// in Subnet.
	Relays []netip.Addr
	// Hostname goes out as option 12; empty: none.
	Hostname string
	// Address is the recorded address with the prefix length of its network.
	// The boot server never allocates one: in mode Reserve a host without is
	// not answered. Mode Proxy does not look at it.
	Address netip.Prefix
	// IPv6 is what DHCPv6 gives the host, besides or alone.
	IPv6 IPv6
	// Gateway is the default router; zero: none.
	Gateway netip.Addr
	// DNS and NTP servers, in order of preference.
	DNS, NTP []netip.Addr
	// Domain is the DNS domain (option 15); empty: none.
	Domain string
	// Search are the domains in which names are looked up (option 119).
	Search []string
	// Routes are further routes (option 121), besides Gateway.
	Routes []Route
	// MTU of the network in bytes; 0: not told.
	MTU int
	// LeaseTime is how long the address may be used without a renewal; 0 means
	// DefaultLeaseTime. The address stays the host's whatever it does.
	LeaseTime time.Duration
	// Loader is which of the boot loaders for its firmware the host is given.
	Loader Loader
	// Plan is what to boot now.
	Plan Plan
}

// Key is "namespace/name"; empty where the machine is unknown.
func (h Host) Key() string {
	if h.Name == "" {
		return ""
	}
	return h.Namespace + "/" + h.Name
}

// On returns the network's addresses: Subnet, or what Address says of them.
func (h Host) On() netip.Prefix {
	if h.Subnet.IsValid() {
		return h.Subnet.Masked()
	}
	return h.Address.Masked()
}

// Mode is how DHCP serves a network.
type Mode int

const (
	// Reserve: this server gives each known host the address recorded for it.
	Reserve Mode = iota
	// Proxy: another server gives the addresses; this one says what to boot,
	// and nothing else (PXE 2.1 §2.2.3, proxyDHCP).
	Proxy
)

// String is the mode's name in events and logs.
func (m Mode) String() string {
	switch m {
	case Reserve:
		return "Reserve"
	case Proxy:
		return "Proxy"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// Loader is one of the builds of the boot loader that there are for a firmware.
type Loader int

const (
	// SmallLoader drives the network card through the firmware that loaded it,
	// so it fits any card.
	SmallLoader Loader = iota
	// FullLoader brings drivers of its own, for firmware whose driver hangs
	// under the small one.
	FullLoader
	// SignedLoader is shim and GRUB, which firmware with Secure Boot and Microsoft's
	// keys starts. It is for x64 UEFI only, and nothing takes its place: such firmware
	// refuses the others.
	SignedLoader
)

// String is the loader's name in logs.
func (l Loader) String() string {
	switch l {
	case SmallLoader:
		return "Small"
	case FullLoader:
		return "Full"
	case SignedLoader:
		return "Signed"
	}
	return fmt.Sprintf("Loader(%d)", int(l))
}

// Route leads to the addresses of Destination by way of Gateway.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// DefaultLeaseTime is long enough for a provisioned host to sit out a weekend
// without any boot server (it renews at half of it).
const DefaultLeaseTime = 7 * 24 * time.Hour

// PlanKind says what a host boots.
type PlanKind int

const (
	// None: the host gets no answer at all, not even an address. For hosts
	// that Ingot must not boot (adopted, duplicate, decommissioned).
	None PlanKind = iota
	// LocalDisk: the host gets its address, and its firmware is sent to the
	// installed disk.
	LocalDisk
	// Agent: the host gets its address and boots Ingot's agent.
	Agent
)

// String is the kind's name in events and logs.
func (k PlanKind) String() string {
	switch k {
	case None:
		return "None"
	case LocalDisk:
		return "LocalDisk"
	case Agent:
		return "Agent"
	}
	return fmt.Sprintf("PlanKind(%d)", int(k))
}

// Plan is what one host is to boot right now.
type Plan struct {
	Kind PlanKind
	// Agent is read when Kind is Agent.
	Agent AgentBoot
}

// Loaded is what a boot loader from the network is to boot now. Where the BMC names the
// agent's boot that is the disk: whoever started a loader there, it gets neither agent
// nor token, and the firmware goes on.
func (p Plan) Loaded() PlanKind {
	if p.Kind == Agent && p.Agent.Way != ByNetwork {
		return LocalDisk
	}
	return p.Kind
}

// Way is how firmware gets the agent. A way that the host's BMC names is the only one:
// whatever else the firmware asks for is answered as if there were nothing to boot.
type Way int

const (
	// ByNetwork: DHCP names a boot loader, and that one the boot script.
	ByNetwork Way = iota
	// ByHTTP: firmware loads the unified kernel image, which DHCP may name as well.
	ByHTTP
	// ByDisc: the BMC shows a CD image, which has the token too.
	ByDisc
)

// String is the way's name in logs.
func (w Way) String() string {
	switch w {
	case ByNetwork:
		return "ByNetwork"
	case ByHTTP:
		return "ByHTTP"
	case ByDisc:
		return "ByDisc"
	}
	return fmt.Sprintf("Way(%d)", int(w))
}

// AgentBoot is one network boot of the agent. It carries no authority to write
// a disk: the agent gets its order over its session (I5).
type AgentBoot struct {
	// Way is how firmware gets it.
	Way Way
	// Kernel and Initrds are files of the boot server's registry.
	Kernel  File
	Initrds []File
	// Unified is the unified kernel image that firmware loads by HTTP in place of
	// Kernel and Initrds, where the way is ByHTTP; zero: there is none.
	Unified File
	// Server is where the agent opens its session, as host:port
	// (agentapi.ArgServer). ServerIPv6 is the same by IPv6; empty: there is none.
	Server, ServerIPv6 string
	// Pin holds the digests of the manager's keys (agentapi.ArgPin).
	Pin string
	// Token proves to the manager which order this boot is for (I14,
	// agentapi.ArgToken). Where the way is ByDisc only the disc has it, and a
	// Directory gives none.
	Token agentapi.Sensitive
	// Arguments are further kernel arguments, such as console=ttyS0.
	Arguments []string
}

// UnifiedPath is where the boot server's HTTP port has the unified kernel image of the
// host that boots from this address, as long as it is to boot the agent. It never
// changes, so that a BMC can be told it before anything else is known (HttpBootUri).
func UnifiedPath(mac net.HardwareAddr) string { return "/boot/" + mac.String() + "/" + unifiedName }

const unifiedName = "agent.efi"

// DiscDirectory answers whose CD image a BMC asks for. Like Directory it answers from
// memory, never blocks, and is safe for concurrent use.
type DiscDirectory interface {
	// Disc takes the ticket from an image's address. False: it is not a ticket of
	// ours, or what it was made for is over.
	Disc(ticket string) (Host, bool)
}

// DiscPath is where the boot server's HTTP port has the CD image that a ticket is for.
// Tickets are letters, digits, "-" and "_": some BMCs take no other address.
func DiscPath(ticket string) string { return discBefore + ticket + discAfter }

const discBefore, discAfter = "/media/", "/agent.iso"

// IsDiscPath says whether a path is one of those, whatever the ticket.
func IsDiscPath(path string) bool {
	return len(path) > len(discBefore)+len(discAfter) && strings.HasPrefix(path, discBefore) && strings.HasSuffix(path, discAfter)
}

// File is one file of the boot server's content-addressed registry.
type File struct {
	// SHA256 is the content's digest in lower-case hex.
	SHA256 string
	// Name is the last element of the URL, for people and for iPXE.
	Name string
}

// Path is the file's path on the boot server's HTTP port.
func (f File) Path() string { return "/files/" + f.SHA256 + "/" + f.Name }

// Table is a fixed Directory, keyed by MAC in lower case with colons.
type Table map[string]Host

// Lookup implements Directory.
func (t Table) Lookup(mac net.HardwareAddr) (Host, bool) {
	h, ok := t[strings.ToLower(mac.String())]
	return h, ok
}

// Images is a fixed ImageDirectory, keyed by checksum.
type Images map[string]ImageSource

// Image implements ImageDirectory.
func (i Images) Image(checksum string) (ImageSource, bool) {
	s, ok := i[checksum]
	return s, ok
}
