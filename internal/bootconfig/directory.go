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

// Options of a Directory. All fields are needed, but for Arguments and Unified.
type Options struct {
	// Cache answers from memory; the indexes of package index are set up on it.
	Cache client.Reader
	// Keys mint the agents' tokens.
	Keys token.Keys
	// Pins of the agent API's key.
	Pins []token.Pin
	// Server is host:port by which agents reach the agent API. ServerIPv6 is the same by
	// IPv6; empty: they do not.
	Server, ServerIPv6 string
	// Kernel and Initrds are the agent's files in the boot server's registry.
	Kernel  pxe.File
	Initrds []pxe.File
	// Unified is the same as one UEFI program, for hosts that boot by HTTP; zero: none,
	// and such hosts boot nothing.
	Unified pxe.File
	// Arguments are further kernel arguments, such as console=ttyS0.
	Arguments []string
	Clock     clock.PassiveClock
	Log       logr.Logger
}

// Directory implements pxe.Directory, pxe.Discoverer and pxe.ImageDirectory.
type Directory struct {
	Options
	objects   objects
	strangers discovery
	// networks are *read by name.
	networks sync.Map
}

// New makes a Directory.
func New(o Options) *Directory { return &Directory{Options: o, objects: reader{o.Cache}} }

// Lookup returns the host with this boot MAC address. A MAC address that two
// hosts claim is answered for neither, and so are two hosts of one server (I8).
func (d *Directory) Lookup(mac net.HardwareAddr) (pxe.Host, bool) {
	ctx := context.Background() // the cache neither blocks nor calls out
	address := mac.String()     // in lower case
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
	out, ok := d.given(network)
	if !ok {
		return pxe.Host{}, false
	}
	if out.Mode == pxe.Reserve && out.Subnet.IsValid() && !d.lease(ctx, host, &out) {
		return pxe.Host{}, false
	}
	d.addIPv6(ctx, host, network, &out)
	if out.OnlyIPv6() && out.IPv6.Mode == pxe.Stateful && !out.IPv6.Address.IsValid() {
		return pxe.Host{}, false
	}
	out.Namespace, out.Name, out.MAC = host.Namespace, host.Name, mac
	out.Hostname = host.Name
	if host.Spec.Claim != nil {
		out.Hostname = host.Spec.Claim.Hostname
	}
	out.Loader = loaderOf(host)
	if out.Plan = d.plan(host); out.Plan.Agent.Way == pxe.ByDisc {
		out.Plan.Agent.Token = "" // Disc gives it, to who has the ticket
	}
	return out, true
}

// loaderOf is the boot loader that the host is given by PXE.
func loaderOf(host *infrav1.IngotHost) pxe.Loader {
	switch wanted := host.Spec.BootLoader; {
	case wanted == infrav1.BootLoaderFull:
		return pxe.FullLoader
	case wanted == infrav1.BootLoaderSigned, wanted == "" && host.Spec.BootMode == infrav1.BootModeUEFISecureBoot:
		return pxe.SignedLoader
	}
	return pxe.SmallLoader
}

// isDuplicate says whether the host was seen to be the same server as another. One
// that is in use keeps its address: a mistake in the inventory must not cut off a
// running system (I2).
func isDuplicate(host *infrav1.IngotHost) bool {
	inUse := host.Spec.Claim != nil && host.Spec.Claim.State == infrav1.ClaimProvisioned
	return !inUse && conditions.IsFalse(host, infrav1.HostUniqueCondition)
}

// isRefusedNetwork reports a host that its network does not allow, unless it was there before
// (see package networkuse).
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

// lease adds the address that is recorded for the host's boot NIC on its present
// network; false when there is none.
func (d *Directory) lease(ctx context.Context, host *infrav1.IngotHost, out *pxe.Host) bool {
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

// plan decides what the host boots: the agent while an order waits for it, else its own
// disk. An order that has ended or was revoked boots nothing, and so does the order of a
// host that is held: its server may be in use (I21).
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
	way, unified := pxe.ByNetwork, pxe.File{}
	switch host.Spec.BootMethod {
	case infrav1.BootMethodHTTP:
		way, unified = pxe.ByHTTP, d.Unified
	case infrav1.BootMethodVirtualMedia:
		way, claims.Way = pxe.ByDisc, token.ByDisc
	}
	plan := d.agent(claims)
	plan.Agent.Way, plan.Agent.Unified = way, unified
	return plan
}

// agent is a boot of the agent, which comes with these claims.
func (d *Directory) agent(claims token.Claims) pxe.Plan {
	claims.Expiry = d.Clock.Now().Add(token.Lifetime)
	return pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
		Kernel:  d.Kernel,
		Initrds: d.Initrds,
		Server:  d.Server, ServerIPv6: d.ServerIPv6,
		Pin:   pins(d.Pins),
		Token: agentapi.Sensitive(d.Keys.Mint(claims)),
		// The kernel prints its command line, and so the token, unless it is quiet.
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
