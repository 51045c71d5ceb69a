// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/pxe"
)

// Options of a Directory. All fields but Arguments and Unified are required.
type Options struct {
	// Cache has the indexes of package index.
	Cache client.Reader
	// Keys sign the agents' tokens.
	Keys token.Keys
	// Pins are the pins of the agent API's keys.
	Pins []token.Pin
	// Server is host:port of the agent API for agents, ServerIPv6 the same for IPv6; empty if
	// they cannot use IPv6.
	Server, ServerIPv6 string
	// Kernel and Initrds are the agent's files in the boot server's registry.
	Kernel  pxe.File
	Initrds []pxe.File
	// Unified is the agent as one UEFI program, for hosts that boot by HTTP. If it is zero, these
	// hosts cannot boot.
	Unified pxe.File
	// Arguments are additional kernel arguments, such as console=ttyS0.
	Arguments []string
	Clock     clock.PassiveClock
	Log       logr.Logger
}

// Directory implements pxe.Directory, pxe.DiscoveryHandler and pxe.ImageDirectory.
type Directory struct {
	Options
	objects   objects
	discovery discovery
	// networks holds *parsedNetwork by name.
	networks sync.Map
}

// New returns a Directory.
func New(o Options) *Directory { return &Directory{Options: o, objects: reader{o.Cache}} }

// Lookup returns the host with this boot MAC address. It returns false if several hosts have the
// address, and for duplicates (I8).
func (d *Directory) Lookup(mac net.HardwareAddr) (pxe.Host, bool) {
	ctx := context.Background() // the cache neither blocks nor calls out
	address := mac.String()
	host, err := d.objects.host(ctx, address)
	if err != nil {
		d.Log.Error(err, "Could not look up a boot MAC address", "mac", address)
	}
	if host == nil || isDuplicate(host) || isRefusedNetwork(host) {
		return pxe.Host{}, false
	}
	network := d.objects.network(ctx, host.Spec.NetworkRef.Name)
	if network == nil {
		return pxe.Host{}, false
	}
	out, ok := d.parsedNetwork(network)
	if !ok {
		return pxe.Host{}, false
	}
	if out.Mode == pxe.Reserve && out.Subnet.IsValid() && !d.addAddress(ctx, host, &out) {
		return pxe.Host{}, false
	}
	d.addIPv6(ctx, host, network, &out)
	if out.IsIPv6Only() && out.IPv6.Mode == pxe.Stateful && !out.IPv6.Address.IsValid() {
		return pxe.Host{}, false
	}
	out.Namespace, out.Name, out.MAC = host.Namespace, host.Name, mac
	out.Hostname = host.Name
	if host.Spec.Claim != nil {
		out.Hostname = host.Spec.Claim.Hostname
	}
	out.Loader = loaderOf(host)
	if out.Plan = d.plan(host); out.Plan.Agent.Method == pxe.BootVirtualMedia {
		out.Plan.Agent.Token = "" // Disc returns it, to clients with the media token
	}
	return out, true
}

// loaderOf returns the boot loader for PXE.
func loaderOf(host *infrav1.IngotHost) pxe.Loader {
	switch wanted := host.Spec.BootLoader; {
	case wanted == infrav1.BootLoaderFull:
		return pxe.FullLoader
	case wanted == infrav1.BootLoaderSigned, wanted == "" && host.Spec.BootMode == infrav1.BootModeUEFISecureBoot:
		return pxe.SignedLoader
	}
	return pxe.SmallLoader
}

// isDuplicate reports whether the host is the same server as another host. A host in use is never
// one: an error in the inventory must not cut off a running system (I2).
func isDuplicate(host *infrav1.IngotHost) bool {
	inUse := host.Spec.Claim != nil && host.Spec.Claim.State == infrav1.ClaimProvisioned
	return !inUse && conditions.IsFalse(host, infrav1.HostUniqueCondition)
}

// isRefusedNetwork reports whether the host's network does not allow the host (see package
// networkuse).
func isRefusedNetwork(host *infrav1.IngotHost) bool {
	if host.Spec.Claim != nil {
		return false
	}
	switch conditions.GetReason(host, infrav1.HostNetworkAllowedCondition) {
	case infrav1.ReasonNamespaceNotAllowed, infrav1.ReasonNetworkQuotaExceeded:
		return true
	}
	return false
}

// addAddress adds the address that is recorded for the host's boot NIC on its network. It returns
// false if there is none.
func (d *Directory) addAddress(ctx context.Context, host *infrav1.IngotHost, out *pxe.Host) bool {
	hardware := d.objects.hardware(ctx, host)
	if hardware == nil {
		return false
	}
	recorded := hardware.Spec.Address
	if recorded == nil || recorded.MAC != host.Spec.BootMACAddress || recorded.NetworkName != out.Network {
		return false
	}
	address, err := netip.ParseAddr(recorded.IP)
	if err != nil {
		return false
	}
	out.Address = netip.PrefixFrom(address, out.Subnet.Bits())
	return true
}

// plan returns what the host boots: the agent while an order waits for it, else its disk. The agent
// is not booted for an order that has ended or was revoked, nor on a held host, whose server may be
// in use (I21).
func (d *Directory) plan(host *infrav1.IngotHost) pxe.Plan {
	order := host.Spec.Order
	if order == nil || order.Result != nil || ptr.Deref(order.Revoked, false) || lifecycle.IsHeld(host) {
		return pxe.Plan{Kind: pxe.LocalDisk}
	}
	claims := token.Claims{
		Namespace: host.Namespace, Host: host.Name, Purpose: token.Purpose(order.Kind),
		OrderID: order.ID, Attempt: order.Attempt,
	}
	if host.Spec.Claim != nil {
		claims.InstanceID = host.Spec.Claim.InstanceID
	}
	way, unified := pxe.BootNetwork, pxe.File{}
	switch host.Spec.BootMethod {
	case infrav1.BootMethodHTTP:
		way, unified = pxe.BootHTTP, d.Unified
	case infrav1.BootMethodVirtualMedia:
		way, claims.Delivery = pxe.BootVirtualMedia, token.ByVirtualMedia
	}
	plan := d.bootAgent(claims)
	plan.Agent.Method, plan.Agent.Unified = way, unified
	return plan
}

// bootAgent returns a boot of the agent with these claims.
func (d *Directory) bootAgent(claims token.Claims) pxe.Plan {
	claims.Expiry = d.Clock.Now().Add(token.Lifetime)
	return pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
		Kernel:  d.Kernel,
		Initrds: d.Initrds,
		Server:  d.Server, ServerIPv6: d.ServerIPv6,
		Pin:   pins(d.Pins),
		Token: agentapi.Sensitive(d.Keys.Mint(claims)),
		// Without "quiet" the kernel prints its command line, and so the token.
		Arguments: append([]string{"quiet"}, d.Arguments...),
	}}
}

func pins(list []token.Pin) string {
	texts := make([]string, 0, len(list))
	for _, pin := range list {
		texts = append(texts, string(pin))
	}
	return strings.Join(texts, ",")
}
