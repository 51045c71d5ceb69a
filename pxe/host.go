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

// Directory returns what each host boots right now. It answers from memory, never blocks,
// and is safe for concurrent use.
type Directory interface {
	// Lookup returns the host with this boot NIC. False means that the address is unknown
	// and the boot server stays silent.
	Lookup(mac net.HardwareAddr) (Host, bool)
}

// ImageDirectory returns the source of each OS image. The boot server fetches no other
// images. It answers from memory and never blocks.
type ImageDirectory interface {
	// Image takes a checksum as "sha256:<hex>" or "sha512:<hex>", lower case.
	Image(checksum string) (ImageSource, bool)
}

// ImageSource is where an OS image can be downloaded.
type ImageSource struct {
	URL string // http or https
	// Mirrors are other URLs of the same content, the best first.
	Mirrors []string
	// Checksum of the content: "sha256:<hex>" or "sha512:<hex>".
	Checksum string
	// Namespaces have claims that use the image, without duplicates. They share its cache budget.
	Namespaces []string
}

// Host is what the boot server knows of one server.
type Host struct {
	// Namespace and Name identify the IngotHost, for events and logs only. They are empty
	// for an unknown client (Discoverer).
	Namespace, Name string
	MAC             net.HardwareAddr // boot NIC
	// Network is the name of the boot network, for events and logs only. Subnet is its
	// IPv4 subnet; zero means the subnet of Address.
	Network string
	Subnet  netip.Prefix
	Mode    Mode
	// Relays are addresses of DHCP relays of the network that are outside of Subnet.
	Relays []netip.Addr
	// Hostname is sent as option 12; empty means no option.
	Hostname string
	// Address is the host's recorded address with the prefix length of its network. The
	// boot server never allocates addresses: in mode Reserve a host without an address
	// gets no answer. Mode Proxy ignores this field.
	Address netip.Prefix
	IPv6    IPv6
	// Gateway is the default router; zero means none.
	Gateway netip.Addr
	// DNS and NTP servers, the preferred first.
	DNS, NTP []netip.Addr
	// Domain is the DNS domain (option 15); empty means no option.
	Domain string
	// Search lists the DNS search domains (option 119).
	Search []string
	// Routes are static routes (option 121) in addition to Gateway.
	Routes []Route
	// MTU of the network in bytes; 0 means no option.
	MTU int
	// LeaseTime is the DHCP lease time; 0 means DefaultLeaseTime. The address remains the
	// host's after the lease.
	LeaseTime time.Duration
	Loader    Loader
	Plan      Plan
}

// Key returns "namespace/name", or "" for an unknown client.
func (h Host) Key() string {
	if h.Name == "" {
		return ""
	}
	return h.Namespace + "/" + h.Name
}

// IPv4Subnet returns the host's IPv4 subnet: Subnet, or else the subnet of Address.
func (h Host) IPv4Subnet() netip.Prefix {
	if h.Subnet.IsValid() {
		return h.Subnet.Masked()
	}
	return h.Address.Masked()
}

// Mode is the way that DHCPv4 serves a network.
type Mode int

const (
	// Reserve: this server gives each known host its recorded address.
	Reserve Mode = iota
	// Proxy: another server gives addresses, and this server only sends boot information
	// (proxyDHCP, PXE 2.1 section 2.2.3).
	Proxy
)

func (m Mode) String() string { return enumName("Mode", m, "Reserve", "Proxy") }

// enumName returns the name of value v, or "kind(v)" if v has no name.
func enumName[T ~int](kind string, v T, names ...string) string {
	if v >= 0 && int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, int(v))
}

// Loader is a kind of boot loader.
type Loader int

const (
	// SmallLoader uses the network driver of the firmware, so it works with any NIC.
	SmallLoader Loader = iota
	// FullLoader has its own drivers, for firmware whose driver hangs under SmallLoader.
	FullLoader
	// SignedLoader is shim and GRUB, which firmware with Secure Boot and Microsoft's keys
	// starts. It exists for x64 UEFI only, and such firmware refuses the other loaders.
	SignedLoader
)

func (l Loader) String() string { return enumName("Loader", l, "Small", "Full", "Signed") }

// Route is a static route.
type Route struct {
	Destination netip.Prefix
	Gateway     netip.Addr
}

// DefaultLeaseTime lets a provisioned host survive a weekend without a boot server: hosts
// renew at half of the lease time.
const DefaultLeaseTime = 7 * 24 * time.Hour

// PlanKind is what a host boots.
type PlanKind int

const (
	// None: the host gets no answer, not even an address. Ingot must not boot such a host
	// (adopted, duplicate, decommissioned).
	None PlanKind = iota
	// LocalDisk: the host gets its address and boots the installed disk.
	LocalDisk
	// Agent: the host gets its address and boots Ingot's agent.
	Agent
)

func (k PlanKind) String() string { return enumName("PlanKind", k, "None", "LocalDisk", "Agent") }

// Plan is what a host boots right now.
type Plan struct {
	Kind  PlanKind
	Agent AgentBoot
}

// NetworkBootKind returns what a network boot loader boots. The result is LocalDisk if the BMC starts
// the agent another way: then a network boot loader gets neither agent nor token.
func (p Plan) NetworkBootKind() PlanKind {
	if p.Kind == Agent && p.Agent.Method != BootNetwork {
		return LocalDisk
	}
	return p.Kind
}

// BootMethod is how firmware gets the agent. If the BMC was set to BootHTTP or BootVirtualMedia, every other
// boot request is answered as if the plan were LocalDisk.
type BootMethod int

const (
	// BootNetwork: DHCP names a boot loader, and the boot loader fetches the boot script.
	BootNetwork BootMethod = iota
	// BootHTTP: firmware loads the unified kernel image, which DHCP may name, too.
	BootHTTP
	// BootVirtualMedia: the BMC attaches a CD image, which contains the token.
	BootVirtualMedia
)

func (w BootMethod) String() string { return enumName("Way", w, "ByNetwork", "ByHTTP", "ByDisc") }

// AgentBoot describes one boot of the agent. It grants no permission to write a disk: the
// agent receives its work in its session (I5).
type AgentBoot struct {
	Method BootMethod
	// Kernel and Initrds are in the boot server's registry.
	Kernel  File
	Initrds []File
	// Unified is the unified kernel image that firmware loads instead of Kernel and
	// Initrds with BootHTTP; zero means none.
	Unified File
	// Server is the host:port of the agent's session (agentapi.ArgServer). ServerIPv6 is
	// its IPv6 address; empty means none.
	Server, ServerIPv6 string
	// Pin holds the digests of the manager's keys (agentapi.ArgPin).
	Pin string
	// Token identifies the boot to the manager (I14, agentapi.ArgToken). With BootVirtualMedia only
	// the CD image contains the token, and the Directory returns none.
	Token agentapi.Sensitive
	// Arguments are more kernel arguments, such as console=ttyS0.
	Arguments []string
}

// UnifiedPath is the HTTP path of a host's unified kernel image. The boot server serves it
// while the host is to boot the agent. The path never changes, so that a BMC can be
// configured in advance (HttpBootUri).
func UnifiedPath(mac net.HardwareAddr) string { return "/boot/" + mac.String() + "/" + unifiedName }

const unifiedName = "agent.efi"

// MediaDirectory finds the host of a CD image request. It answers from memory, never blocks,
// and is safe for concurrent use.
type MediaDirectory interface {
	// HostByToken returns the host of the media token in an image's URL. False means that the
	// media token is invalid or expired.
	HostByToken(mediaToken string) (Host, bool)
}

// MediaPath is the HTTP path of the CD image of a media token. Media tokens consist of letters,
// digits, "-" and "_", because some BMCs reject other URLs.
func MediaPath(mediaToken string) string { return discBefore + mediaToken + discAfter }

const discBefore, discAfter = "/media/", "/agent.iso"

// IsMediaPath reports whether path is the path of a CD image, with any media token.
func IsMediaPath(path string) bool {
	return len(path) > len(discBefore)+len(discAfter) && strings.HasPrefix(path, discBefore) && strings.HasSuffix(path, discAfter)
}

// EncodeDomain encodes a domain name (RFC 1035 section 3.1). It returns false for an invalid name.
func EncodeDomain(domain string) ([]byte, bool) {
	var out []byte
	for label := range strings.SplitSeq(strings.TrimSuffix(domain, "."), ".") {
		if label == "" || len(label) > 63 {
			return nil, false
		}
		out = append(append(out, byte(len(label))), label...)
	}
	return append(out, 0), len(out) < 255
}

// File names a file of the boot server's content-addressed registry.
type File struct {
	// SHA256 is the digest of the content in lower-case hex.
	SHA256 string
	// Name is the last element of the URL, for people and for iPXE.
	Name string
}

func (f File) Path() string { return "/files/" + f.SHA256 + "/" + f.Name }

// Table is a fixed Directory. Its keys are MAC addresses in lower case with colons.
type Table map[string]Host

func (t Table) Lookup(mac net.HardwareAddr) (Host, bool) {
	h, ok := t[strings.ToLower(mac.String())]
	return h, ok
}

// Images is a fixed ImageDirectory. Its keys are checksums.
type Images map[string]ImageSource

func (i Images) Image(checksum string) (ImageSource, bool) {
	s, ok := i[checksum]
	return s, ok
}
