// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/server"
)

// The hosts of a network with IPv6 alone: one boots by iPXE in its ROM, the other loads
// it by TFTP.
const (
	sixByIPXE = "six-ipxe"
	sixByTFTP = "six-tftp"
)

// testIPv6 takes hosts through the whole of life on a network that has no IPv4: recorded,
// inspected, installed, reported, released, cleaned and free again.
func testIPv6(t *testing.T, plane *Plane) {
	names := []string{sixByIPXE, sixByTFTP}
	site := plane.NewSite(t, SiteOptions{Servers: names, Simulate: func(name string, c *server.Config) {
		c.IPv6, c.PlainPXE = true, name == sixByTFTP
	}})
	subnet := netip.MustParsePrefix(fmt.Sprintf("2001:db8:%x::/64", site.number))
	at := func(last string) string { return fmt.Sprintf("2001:db8:%x::%s", site.number, last) }
	site.StartManager(t, ManagerOptions{Name: "manager", Args: []string{"--lab-ipv6-address=" + at("1") + "/64"}})
	check(t, site.Client.Create(t.Context(), &infrav1.IngotNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: site.Namespace},
		Spec: infrav1.IngotNetworkSpec{AllowedNamespaces: &infrav1.NetworkNamespaces{Selector: &metav1.LabelSelector{}}, IPv6: &infrav1.NetworkIPv6{
			Mode: infrav1.DHCPv6ModeStateful, Subnet: subnet.String(), Range: infrav1.IPv6Range{Start: at("1000"), End: at("1fff")},
		}},
	}))
	site.CreateCluster(t) // its network is there already
	for _, name := range names {
		site.Register(t, name)
	}
	site.Await(t, "hosts inspected", site.Free(names...))
	for _, name := range names {
		site.Claim(t, name, theHost(name))
	}
	site.Await(t, "hosts installed", site.Installed(names...))
	for _, name := range names {
		wantIPv6(t, site, name, subnet)
	}
	for _, name := range names {
		site.Delete(t, name)
	}
	site.Await(t, "hosts free again", site.Free(names...))
	for _, name := range names {
		if wipes := site.Server(name).Simulated.Disks()[0].Wipes(); wipes != 1 {
			t.Errorf("%s: %d wipes, want one", name, wipes)
		}
	}
}

// wantIPv6: the recorded address is what the system and the machine have, and there is
// no other; the boot log saw the boot to its end.
func wantIPv6(t *testing.T, site *Site, name string, subnet netip.Prefix) {
	t.Helper()
	hardware := &infrav1.IngotHardware{}
	check(t, site.Client.Get(t.Context(), client.ObjectKey{Namespace: site.Namespace, Name: name}, hardware))
	recorded := hardware.Spec.IPv6Address
	if recorded == nil || hardware.Spec.Address != nil {
		t.Fatalf("%s: recorded %v of IPv6 and %v of IPv4", name, recorded, hardware.Spec.Address)
	}
	if ip := netip.MustParseAddr(recorded.IP); !subnet.Contains(ip) {
		t.Errorf("%s: recorded %s, which is not of %s", name, ip, subnet)
	}
	if booted := hardware.Spec.Booted; booted == nil || !slices.Equal(booted.Addresses, []string{recorded.IP}) {
		t.Errorf("%s: the system reports %+v, recorded is %s", name, booted, recorded.IP)
	}
	machine := &infrav1.IngotMachine{}
	check(t, site.Client.Get(t.Context(), client.ObjectKey{Namespace: site.Namespace, Name: name}, machine))
	want := clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: recorded.IP}
	if !slices.Contains(machine.Status.Addresses, want) {
		t.Errorf("%s: the machine has %v, want %v among them", name, machine.Status.Addresses, want)
	}
	reached := func(b infrav1.BootRecord) bool {
		return slices.ContainsFunc(b.Stages, func(s infrav1.BootStage) bool { return s.Name == "Agent" })
	}
	// Boot servers write what they saw a moment later, some boots at a time.
	site.Await(t, name+": a boot that came to its agent", func(ctx context.Context) (string, error) {
		host := &infrav1.IngotHost{}
		if err := site.Client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: name}, host); err != nil {
			return "", err
		}
		if !slices.ContainsFunc(host.Status.Boots, reached) {
			return fmt.Sprintf("of %+v", host.Status.Boots), nil
		}
		return "", nil
	})
}
