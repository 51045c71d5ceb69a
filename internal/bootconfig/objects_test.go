// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"net/netip"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/test/eventually"
)

// A directory that follows a cache keeps nothing of a changed host, hardware or network.
func TestFollowedChanges(t *testing.T) {
	objects := oneHost(nil)
	d, changes := following(t, objects...)
	host, hardware, network := objects[0].(*infrav1.IngotHost), objects[1].(*infrav1.IngotHardware), objects[2].(*infrav1.IngotNetwork)
	shows := func(what string, is func(pxe.Host, bool) bool) {
		t.Helper()
		eventually.Wait{Interval: time.Millisecond}.Until(t, what, eventually.Holds(func() bool { return is(d.Lookup(parse(t, mac))) }))
	}
	dns := func(first string) func(pxe.Host, bool) bool {
		return func(h pxe.Host, ok bool) bool { return ok && h.DNS[0] == netip.MustParseAddr(first) }
	}
	shows("the network", dns("192.0.2.2"))

	network = network.DeepCopy()
	network.Spec.DNSServers = []string{"192.0.2.99"}
	changes["IngotNetwork"].Modify(network)
	shows("another DNS server", dns("192.0.2.99"))

	hardware = hardware.DeepCopy()
	hardware.Spec.Address.IP = "192.0.2.8"
	changes["IngotHardware"].Modify(hardware)
	shows("another address", func(h pxe.Host, ok bool) bool { return ok && h.Address == netip.MustParsePrefix("192.0.2.8/24") })

	host = host.DeepCopy()
	host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInspect, ID: orderID, Attempt: 1}
	changes["IngotHost"].Modify(host)
	shows("an order", func(h pxe.Host, ok bool) bool { return ok && h.Plan.Kind == pxe.Agent })

	twin := host.DeepCopy()
	twin.Name = "twin"
	changes["IngotHost"].Add(twin)
	shows("a host with the same MAC address (I8)", func(_ pxe.Host, ok bool) bool { return !ok })
	changes["IngotHost"].Delete(twin)
	shows("the twin's end", func(_ pxe.Host, ok bool) bool { return ok })

	changes["IngotNetwork"].Delete(network)
	shows("the network's end", func(_ pxe.Host, ok bool) bool { return !ok })
}

// The shared configuration of a network is not changed for one host.
func TestSharedLists(t *testing.T) {
	d, _ := following(t, oneHost(func(_ *infrav1.IngotHost, _ *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
		n.Spec.DNSServers = []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"} // appended one by one, they have room for a fourth
		n.Spec.IPv6 = ipv6(infrav1.DHCPv6ModeStateless)
	})...)
	first, _ := d.Lookup(parse(t, mac))
	second, ok := d.Lookup(parse(t, mac))
	if !ok || len(second.DNS) != 4 || &first.DNS[0] == &second.DNS[0] {
		t.Errorf("two answers share %v", second.DNS)
	}
}

// everyWay returns directories that read the same objects in each possible way.
func everyWay(t *testing.T, objects ...client.Object) map[string]*Directory {
	t.Helper()
	d, _ := following(t, objects...)
	return map[string]*Directory{"reader": newDirectory(t, objects...), "stores": d}
}
