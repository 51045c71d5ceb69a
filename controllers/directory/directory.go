// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/index"
	"github.com/ingot-metal/ingot/controllers/token"
	"github.com/ingot-metal/ingot/pxe"
)

// Options of a Directory. All fields are needed, but for Arguments.
type Options struct {
	// Cache answers from memory; the indexes of package index are set up on it.
	Cache client.Reader
	// Keys mint the agents' tokens.
	Keys token.Keys
	// Pins of the agent API's key.
	Pins []token.Pin
	// Server is host:port by which agents reach the agent API.
	Server string
	// Kernel and Initrds are the agent's files in the boot server's registry.
	Kernel  pxe.File
	Initrds []pxe.File
	// Arguments are further kernel arguments, such as console=ttyS0.
	Arguments []string
	Clock     clock.PassiveClock
	Log       logr.Logger
}

// Directory implements pxe.Directory and pxe.ImageDirectory.
type Directory struct{ Options }

// New makes a Directory.
func New(o Options) *Directory { return &Directory{Options: o} }

// Lookup returns the host with this boot MAC address. A MAC address that two
// hosts claim is answered for neither, and so are two hosts of one server (I8).
func (d *Directory) Lookup(mac net.HardwareAddr) (pxe.Host, bool) {
	ctx := context.Background() // the cache neither blocks nor calls out
	hosts := &infrav1.IngotHostList{}
	address := strings.ToLower(mac.String())
	if err := d.Cache.List(ctx, hosts, client.MatchingFields{index.HostByMAC: address}); err != nil {
		d.Log.Error(err, "Could not look up a boot MAC address", "mac", address)
		return pxe.Host{}, false
	}
	if len(hosts.Items) != 1 {
		return pxe.Host{}, false
	}
	host := &hosts.Items[0]
	if isDuplicate(host) {
		return pxe.Host{}, false
	}
	hardware := &infrav1.IngotHardware{}
	if err := d.Cache.Get(ctx, client.ObjectKeyFromObject(host), hardware); err != nil {
		return pxe.Host{}, false
	}
	network := &infrav1.IngotNetwork{}
	if err := d.Cache.Get(ctx, client.ObjectKey{Name: host.Spec.NetworkRef.Name}, network); err != nil {
		return pxe.Host{}, false
	}
	lease, ok := leaseOf(host, hardware, network)
	if !ok {
		return pxe.Host{}, false
	}
	lease.MAC = mac
	lease.Plan = d.plan(host)
	return lease, true
}

// isDuplicate says whether the host was seen to be the same server as another. One
// that is in use keeps its address: a mistake in the inventory must not cut off a
// running system (I2).
func isDuplicate(host *infrav1.IngotHost) bool {
	inUse := host.Spec.Claim != nil && host.Spec.Claim.State == infrav1.ClaimProvisioned
	return !inUse && conditions.IsFalse(host, infrav1.HostUniqueCondition)
}

// leaseOf is what DHCP gives the host; false when no address is recorded for it.
func leaseOf(host *infrav1.IngotHost, hardware *infrav1.IngotHardware, network *infrav1.IngotNetwork) (pxe.Host, bool) {
	recorded := hardware.Spec.Address
	if recorded == nil || recorded.MAC != host.Spec.BootMACAddress || recorded.NetworkName != network.Name {
		return pxe.Host{}, false
	}
	subnet, err := netip.ParsePrefix(network.Spec.Subnet)
	if err != nil {
		return pxe.Host{}, false
	}
	address, err := netip.ParseAddr(recorded.IP)
	if err != nil {
		return pxe.Host{}, false
	}
	out := pxe.Host{
		Namespace: host.Namespace,
		Name:      host.Name,
		Hostname:  host.Name,
		Address:   netip.PrefixFrom(address, subnet.Bits()),
		Domain:    network.Spec.Domain,
		LeaseTime: time.Duration(ptr.Deref(network.Spec.LeaseSeconds, 0)) * time.Second,
	}
	if host.Spec.Claim != nil {
		out.Hostname = host.Spec.Claim.Hostname
	}
	out.Gateway, _ = netip.ParseAddr(network.Spec.Gateway)
	for _, text := range network.Spec.DNSServers {
		if server, err := netip.ParseAddr(text); err == nil {
			out.DNS = append(out.DNS, server)
		}
	}
	return out, true
}

// plan says what the host boots: the agent while an order waits for it, else its
// own disk. An order that has ended, or was revoked, boots nothing.
func (d *Directory) plan(host *infrav1.IngotHost) pxe.Plan {
	order := host.Spec.Order
	if order == nil || order.Result != nil || ptr.Deref(order.Revoked, false) {
		return pxe.Plan{Kind: pxe.LocalDisk}
	}
	claims := token.Claims{
		Namespace: host.Namespace, Host: host.Name, Purpose: token.Purpose(order.Kind),
		OrderID: order.ID, Attempt: order.Attempt,
		Expiry: d.Clock.Now().Add(token.Lifetime),
	}
	if host.Spec.Claim != nil {
		claims.InstanceID = host.Spec.Claim.InstanceID
	}
	return pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
		Kernel:  d.Kernel,
		Initrds: d.Initrds,
		Server:  d.Server,
		Pin:     pins(d.Pins),
		Token:   agentapi.Sensitive(d.Keys.Mint(claims)),
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

// Image returns where the image with this checksum comes from, if the claim of a
// host names it: nothing else is ever fetched.
func (d *Directory) Image(checksum string) (pxe.ImageSource, bool) {
	hosts := &infrav1.IngotHostList{}
	err := d.Cache.List(context.Background(), hosts, client.MatchingFields{index.HostByImage: checksum}, client.Limit(1))
	if err != nil || len(hosts.Items) == 0 {
		return pxe.ImageSource{}, false
	}
	image := hosts.Items[0].Spec.Claim.Image
	return pxe.ImageSource{URL: image.URL, Checksum: image.Checksum}, true
}
