// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
)

// provide acts as the IPAM provider for the claim of host "h".
func provide(y *fixture, network, address string) {
	y.t.Helper()
	claim := theClaim(y, network)
	given := &ipamv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, GenerateName: "given-"}}
	given.Spec = ipamv1.IPAddressSpec{ClaimRef: ipamv1.IPAddressClaimReference{Name: claim.Name}, PoolRef: claim.Spec.PoolRef, Address: address, Prefix: ptr.To[int32](24)}
	y.create(given)
	claim.Status.AddressRef.Name = given.Name
	must(y, y.api.Status().Update(y.ctx, claim))
}

func theClaim(y *fixture, network string) *ipamv1.IPAddressClaim {
	y.t.Helper()
	claim := &ipamv1.IPAddressClaim{}
	must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: pool.ClaimName("h", network)}, claim))
	return claim
}

func recordedFor(y *fixture) string {
	y.t.Helper()
	facts := &infrav1.IngotHardware{}
	must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "h"}, facts))
	return facts.Spec.Address.IP
}

// testPoolAddress: the pool address is recorded before the host is powered on. After its claim is
// lost, a free host gets a new address and a host in use keeps the old one.
func testPoolAddress(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	network := y.ns + "-pool"
	y.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: network}, Spec: infrav1.IngotNetworkSpec{
		Subnet: "198.51.100.0/24", Gateway: "198.51.100.1",
		AddressPoolRef: &infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "GlobalInClusterIPPool", Name: "pool"}}})
	y.ready("h", func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = network })
	for range 3 {
		y.step("h")
	}
	y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonWaitingForAddress)
	y.atRest("h")
	if call := y.bmc.took(); call != "" {
		t.Errorf("the host was switched without an address: %s", call)
	}
	provide(y, network, "198.51.100.1") // the gateway's
	y.step("h")
	y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonAddressConflict)
	must(y, y.api.Delete(y.ctx, theClaim(y, network)))
	y.step("h")
	provide(y, network, "198.51.100.40")
	y.inspect("h")
	if got := recordedFor(y); got != "198.51.100.40" {
		t.Errorf("recorded: %s", got)
	}

	// Free, and the claim is deleted: the pool gives another address.
	must(y, y.api.Delete(y.ctx, theClaim(y, network)))
	for range 2 {
		y.step("h")
	}
	y.want("h", infrav1.HostAvailableCondition, metav1.ConditionFalse, infrav1.ReasonWaitingForAddress)
	y.recordedOnce(infrav1.ReasonAddressClaimLost)
	provide(y, network, "198.51.100.41")
	for range 3 {
		y.step("h")
	}
	y.want("h", infrav1.HostAvailableCondition, metav1.ConditionTrue, infrav1.ReasonAvailable)
	if got := recordedFor(y); got != "198.51.100.41" {
		t.Errorf("recorded after the claim was recreated: %s", got)
	}
	y.atRest("h")
}

// testMoveToNetworkWithoutPool: a host that moves to a network without a pool releases its claim as
// soon as nothing uses the address.
func testMoveToNetworkWithoutPool(t *testing.T, on *testEnv) {
	specs := map[string]infrav1.IngotNetworkSpec{
		"range": {Subnet: "203.0.113.0/24", Range: infrav1.AddressRange{Start: "203.0.113.20", End: "203.0.113.30"}},
		"proxy": {Subnet: "203.0.113.0/24", Mode: infrav1.DHCPModeProxy},
	}
	for stage, move := range map[string]func(y *fixture, pooled string, move func()){
		"inspected": func(y *fixture, pooled string, move func()) {
			provide(y, pooled, "198.51.100.50")
			y.inspect("h")
			move()
			for range 4 {
				y.step("h")
			}
		},
		"the pool has not answered": func(y *fixture, pooled string, move func()) {
			theClaim(y, pooled)
			move()
			y.inspect("h")
		},
		"ordered": func(y *fixture, pooled string, move func()) {
			provide(y, pooled, "198.51.100.50")
			y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
			move()
			y.inspect("h")
		},
		"booted, and no agent answers": func(y *fixture, pooled string, move func()) {
			provide(y, pooled, "198.51.100.50")
			y.untilBoot("h", infrav1.OrderInspect)
			move()
			y.clock.Step(31 * time.Second)
			y.step("h")
			if call := y.bmc.took(); call != string(bmc.ActionForceOff) {
				y.t.Fatalf("%q, want it off at once: its boot comes to nothing", call)
			}
			y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff })
			y.clock.Step(31 * time.Second)
			y.inspect("h")
		},
	} {
		for kind, spec := range specs {
			t.Run(stage+"/"+kind, func(t *testing.T) {
				y := newFixture(t, on)
				pooled, other := y.ns+"-pool", y.ns+"-other"
				y.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: pooled}, Spec: infrav1.IngotNetworkSpec{Subnet: "198.51.100.0/24",
					AddressPoolRef: &infrav1.AddressPoolReference{APIGroup: "ipam.cluster.x-k8s.io", Kind: "GlobalInClusterIPPool", Name: "pool"}}})
				y.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: other}, Spec: spec})
				y.ready("h", func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = pooled })
				for range 3 {
					y.step("h")
				}
				move(y, pooled, func() { y.edit("h", func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = other }) })
				y.onlyOn(other)
			})
		}
	}
}

// onlyOn checks that host "h" is Available and has an address on this network only.
func (y *fixture) onlyOn(network string) {
	y.t.Helper()
	y.want("h", infrav1.HostAvailableCondition, metav1.ConditionTrue, infrav1.ReasonAvailable)
	claims := &ipamv1.IPAddressClaimList{}
	must(y, y.api.List(y.ctx, claims, client.InNamespace(y.ns)))
	if len(claims.Items) != 0 {
		y.t.Errorf("claims are left: %+v", claims.Items)
	}
	facts := &infrav1.IngotHardware{}
	err := y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "h"}, facts)
	if a := facts.Spec.Address; client.IgnoreNotFound(err) != nil || a != nil && a.NetworkName != network {
		y.t.Errorf("still recorded: %+v, %v", a, err)
	}
	y.atRest("h")
}

// testEnrolled: an enrolled host is not touched before it is approved and has a BMC.
func testEnrolled(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h", func(h *infrav1.IngotHost) { h.Labels = map[string]string{infrav1.EnrolledLabel: ""} })
	for range 4 {
		y.step("h")
	}
	y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonWaitingForApproval)
	y.want("h", infrav1.HostAvailableCondition, metav1.ConditionFalse, infrav1.ReasonWaitingForApproval)
	y.atRest("h")
	host := y.get("h")
	if call := y.bmc.took(); host.Spec.Order != nil || host.Spec.Record != nil || call != "" {
		t.Errorf("something was done: %+v, %q", host.Spec, call)
	}
	y.edit("h", func(h *infrav1.IngotHost) {
		h.Annotations = map[string]string{infrav1.ApproveAnnotation: commandAt(y.clock.Now())}
	})
	y.inspect("h")
	host = y.get("h")
	if _, waits := host.Labels[infrav1.EnrolledLabel]; waits || host.Annotations[infrav1.ApproveAnnotation] != "" {
		t.Errorf("labels %v, annotations %v", host.Labels, host.Annotations)
	}
	y.want("h", infrav1.HostAvailableCondition, metav1.ConditionTrue, infrav1.ReasonAvailable)
}
