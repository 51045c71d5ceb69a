// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"bytes"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const (
	mac      = "52:54:00:00:00:01"
	orderID  = "0d5b5f0e-6d9e-4b6e-9d5c-3a0c6c1f0a01"
	instance = "7c1d3f52-8a4c-4f0e-b6a1-2f9f0f6b7c02"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// oneHost returns a host with its address and network. change may change all three.
func oneHost(change func(*infrav1.IngotHost, *infrav1.IngotHardware, *infrav1.IngotNetwork)) []client.Object {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = mac, "net"
	facts := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
	facts.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: mac, IP: "192.0.2.7"}
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: infrav1.IngotNetworkSpec{
		Subnet: "192.0.2.0/24", Gateway: "192.0.2.1", DNSServers: []string{"192.0.2.2", "192.0.2.3"}, Domain: "example", LeaseSeconds: ptr.To[int32](600)}}
	if change != nil {
		change(host, facts, network)
	}
	return []client.Object{host, facts, network}
}

func newDirectory(t *testing.T, objects ...client.Object) *Directory {
	t.Helper()
	scheme := testscheme.Scheme(t)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := index.Setup(t.Context(), testscheme.Indexer{ClientBuilder: builder}); err != nil {
		t.Fatal(err)
	}
	keys, err := token.NewKeys(bytes.Repeat([]byte{7}, token.MinKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Cache: builder.Build(), Keys: keys, Pins: []token.Pin{token.PinOf([]byte("a")), token.PinOf([]byte("b"))},
		Server: "192.0.2.1:8843", Kernel: pxe.File{Name: "vmlinuz"}, Initrds: []pxe.File{{Name: "initramfs"}}, Arguments: []string{"console=ttyS0"},
		Clock: testclock.NewFakePassiveClock(now), Log: logr.Discard()})
}

func parse(t *testing.T, text string) net.HardwareAddr {
	t.Helper()
	address, err := net.ParseMAC(text)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Lookup answers these hosts, with these addresses.
func TestLookup(t *testing.T) {
	lease := pxe.Host{Network: "net", Subnet: netip.MustParsePrefix("192.0.2.0/24"), Namespace: "n", Name: "h", Hostname: "h", MAC: parse(t, mac), Address: netip.MustParsePrefix("192.0.2.7/24"),
		Gateway: netip.MustParseAddr("192.0.2.1"), DNS: []netip.Addr{netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.3")},
		Domain: "example", LeaseTime: 10 * time.Minute, Plan: pxe.Plan{Kind: pxe.LocalDisk}}
	with := func(change func(*pxe.Host)) *pxe.Host {
		out := lease
		change(&out)
		return &out
	}
	duplicate := func(h *infrav1.IngotHost) {
		conditions.Set(h, metav1.Condition{Type: infrav1.HostUniqueCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonDuplicate})
	}
	refused := func(reason string, change func(*infrav1.IngotHost)) func(*infrav1.IngotHost, *infrav1.IngotHardware, *infrav1.IngotNetwork) {
		return func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
			conditions.Set(h, metav1.Condition{Type: infrav1.HostNetworkAllowedCondition, Status: metav1.ConditionFalse, Reason: reason})
			change(h)
		}
	}
	asIs := func(*infrav1.IngotHost) {}
	type change = func(*infrav1.IngotHost, *infrav1.IngotHardware, *infrav1.IngotNetwork)
	for name, tc := range map[string]struct {
		ask    string
		change change
		more   []client.Object
		want   *pxe.Host
	}{
		"known":               {ask: mac, want: &lease},
		"unknown":             {ask: "52:54:00:00:00:02"},
		"no address recorded": {ask: mac, change: func(_ *infrav1.IngotHost, f *infrav1.IngotHardware, _ *infrav1.IngotNetwork) { f.Spec.Address = nil }},
		"address of another NIC": {ask: mac, change: func(_ *infrav1.IngotHost, f *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
			f.Spec.Address.MAC = "52:54:00:00:00:09"
		}},
		"address of another network": {ask: mac, change: func(_ *infrav1.IngotHost, f *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
			f.Spec.Address.NetworkName = "old"
		}},
		"network gone": {ask: mac, change: func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
			h.Spec.NetworkRef.Name = "gone"
		}},
		"its network allows not its namespace": {ask: mac, change: refused(infrav1.ReasonNamespaceNotAllowed, asIs)},
		"its network allows no more hosts":     {ask: mac, change: refused(infrav1.ReasonNetworkQuotaExceeded, asIs)},
		"it was there before":                  {ask: mac, change: refused(infrav1.ReasonOutsideAllowedNamespaces, asIs), want: &lease},
		"network wrong":                        {ask: mac, change: func(_ *infrav1.IngotHost, _ *infrav1.IngotHardware, n *infrav1.IngotNetwork) { n.Spec.Subnet = "x" }},
		"address wrong":                        {ask: mac, change: func(_ *infrav1.IngotHost, f *infrav1.IngotHardware, _ *infrav1.IngotNetwork) { f.Spec.Address.IP = "x" }},
		"a bare network": {ask: mac, change: func(_ *infrav1.IngotHost, _ *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
			n.Spec = infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24"}
		}, want: with(func(h *pxe.Host) { h.Gateway, h.DNS, h.Domain, h.LeaseTime = netip.Addr{}, nil, "", 0 })},
		"all that a network can say": {ask: mac, change: func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
			n.Spec.NTPServers, n.Spec.SearchDomains, n.Spec.MTU = []string{"192.0.2.4", "x"}, []string{"example"}, ptr.To[int32](9000)
			n.Spec.Routes = []infrav1.NetworkRoute{{Destination: "10.0.0.0/8", Gateway: "192.0.2.9"}, {Destination: "x", Gateway: "192.0.2.9"}}
			n.Spec.Relays = []string{"10.0.0.1"}
			h.Spec.BootLoader = infrav1.BootLoaderFull
		}, want: with(func(h *pxe.Host) {
			h.NTP, h.Search, h.MTU = []netip.Addr{netip.MustParseAddr("192.0.2.4")}, []string{"example"}, 9000
			h.Routes = []pxe.Route{{Destination: netip.MustParsePrefix("10.0.0.0/8"), Gateway: netip.MustParseAddr("192.0.2.9")}}
			h.Relays = []netip.Addr{netip.MustParseAddr("10.0.0.1")}
			h.Loader = pxe.FullLoader
		})},
		"Secure Boot by PXE": {ask: mac, change: func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
			h.Spec.BootMode = infrav1.BootModeUEFISecureBoot
		}, want: with(func(h *pxe.Host) { h.Loader = pxe.SignedLoader })},
		"a signed loader by choice": {ask: mac, change: func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
			h.Spec.BootLoader = infrav1.BootLoaderSigned
		}, want: with(func(h *pxe.Host) { h.Loader = pxe.SignedLoader })},
		"proxy, no address recorded": {ask: mac, change: func(_ *infrav1.IngotHost, f *infrav1.IngotHardware, n *infrav1.IngotNetwork) {
			f.Spec.Address = nil
			n.Spec = infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24", Mode: infrav1.DHCPModeProxy}
		}, want: with(func(h *pxe.Host) {
			h.Mode, h.Address, h.Gateway, h.DNS, h.Domain, h.LeaseTime = pxe.Proxy, netip.Prefix{}, netip.Addr{}, nil, "", 0
		})},
		"two hosts of one MAC (I8)": {ask: mac, more: []client.Object{&infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n2", Name: "h"},
			Spec: infrav1.IngotHostSpec{BootMACAddress: mac}}}},
		"another that clusterctl takes away": {ask: mac, more: []client.Object{&infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n2", Name: "h",
			Annotations: map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}}, Spec: infrav1.IngotHostSpec{BootMACAddress: mac}}}, want: with(func(*pxe.Host) {})},
		"two hosts of one server (I8)": {ask: mac, change: func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) { duplicate(h) }},
		"a running system whose server was registered twice (I2)": {ask: mac, change: func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
			duplicate(h)
			h.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioned, Hostname: "node-1"}
		}, want: with(func(h *pxe.Host) { h.Hostname = "node-1" })},
	} {
		t.Run(name, func(t *testing.T) {
			for by, d := range everyWay(t, append(oneHost(tc.change), tc.more...)...) {
				got, ok := d.Lookup(parse(t, tc.ask))
				if ok != (tc.want != nil) {
					t.Fatalf("by %s: answered %t, want %t", by, ok, tc.want != nil)
				}
				if !ok {
					continue
				}
				if diff := cmp.Diff(*tc.want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
					t.Errorf("host by %s (-want +got):\n%s", by, diff)
				}
			}
		})
	}
}

// The order decides what is booted (I3), and whether the host is held (I21). The token names the purpose.
func TestPlan(t *testing.T) {
	order := func(kind infrav1.OrderKind, changes ...func(*infrav1.HostOrder)) *infrav1.HostOrder {
		out := &infrav1.HostOrder{Kind: kind, ID: orderID, Attempt: 2}
		for _, change := range changes {
			change(out)
		}
		return out
	}
	claim := func(state infrav1.ClaimState) *infrav1.HostClaim {
		return &infrav1.HostClaim{State: state, InstanceID: instance, Attempt: 2, Hostname: "m"}
	}
	for name, tc := range map[string]struct {
		claim   *infrav1.HostClaim
		order   *infrav1.HostOrder
		held    infrav1.PowerState
		want    pxe.PlanKind
		purpose token.Purpose
	}{
		"free":                   {want: pxe.LocalDisk},
		"provisioned":            {claim: claim(infrav1.ClaimProvisioned), want: pxe.LocalDisk},
		"inspection":             {order: order(infrav1.OrderInspect), want: pxe.Agent, purpose: token.Inspect},
		"install":                {claim: claim(infrav1.ClaimProvisioning), order: order(infrav1.OrderInstall), want: pxe.Agent, purpose: token.Install},
		"wipe":                   {claim: claim(infrav1.ClaimReleasing), order: order(infrav1.OrderClean), want: pxe.Agent, purpose: token.Clean},
		"claimed, not ordered":   {claim: claim(infrav1.ClaimProvisioning), want: pxe.LocalDisk},
		"order that has ended":   {order: order(infrav1.OrderInspect, func(o *infrav1.HostOrder) { o.Result = &infrav1.OrderResult{} }), want: pxe.LocalDisk},
		"inspection, held":       {order: order(infrav1.OrderInspect), held: infrav1.PowerStateOn, want: pxe.LocalDisk},
		"install, held":          {claim: claim(infrav1.ClaimProvisioning), order: order(infrav1.OrderInstall), held: infrav1.PowerStateOn, want: pxe.LocalDisk},
		"wipe, held":             {claim: claim(infrav1.ClaimReleasing), order: order(infrav1.OrderClean), held: infrav1.PowerStateOn, want: pxe.LocalDisk},
		"held, seen off since":   {order: order(infrav1.OrderInspect), held: infrav1.PowerStateOff, want: pxe.Agent, purpose: token.Inspect},
		"order that was revoked": {order: order(infrav1.OrderInspect, func(o *infrav1.HostOrder) { o.Revoked = ptr.To(true) }), want: pxe.LocalDisk},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t, oneHost(func(h *infrav1.IngotHost, _ *infrav1.IngotHardware, _ *infrav1.IngotNetwork) {
				h.Spec.Claim, h.Spec.Order, h.Status.Power = tc.claim, tc.order, tc.held
				if tc.held != "" {
					conditions.Set(h, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonStateUnconfirmed})
				}
			})...)
			host, ok := d.Lookup(parse(t, mac))
			if !ok || host.Plan.Kind != tc.want {
				t.Fatalf("answered %t, plan %s, want %s", ok, host.Plan.Kind, tc.want)
			}
			if tc.want != pxe.Agent {
				return
			}
			claims, err := d.Keys.Verify(string(host.Plan.Agent.Token))
			want := token.Claims{Namespace: "n", Host: "h", Purpose: tc.purpose, OrderID: orderID, Attempt: 2, Expiry: now.Add(token.Lifetime)}
			if tc.claim != nil {
				want.InstanceID = instance
			}
			if diff := cmp.Diff(want, claims); diff != "" || err != nil {
				t.Errorf("token, error %v (-want +got):\n%s", err, diff)
			}
			if pins := strings.Split(host.Plan.Agent.Pin, ","); len(pins) != 2 || pins[0] != string(d.Pins[0]) {
				t.Errorf("pins = %q", host.Plan.Agent.Pin)
			}
			arguments := strings.Join(host.Plan.Agent.Arguments, " ")
			if !strings.Contains(arguments, "console=ttyS0") || !strings.Contains(arguments, "quiet") {
				t.Errorf("arguments = %q: the kernel must not print the token", arguments)
			}
		})
	}
}
