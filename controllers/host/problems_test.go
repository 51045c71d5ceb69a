// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/test/envtest"
)

// behind shows one host as it was, like a cache that lags.
type behind struct {
	*envtest.Indexed
	host *infrav1.IngotHost
}

func (b *behind) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if host, ok := obj.(*infrav1.IngotHost); ok && key == client.ObjectKeyFromObject(b.host) {
		b.host.DeepCopyInto(host)
		return nil
	}
	return b.Indexed.Get(ctx, key, obj, opts...)
}

// Each class of failure has its condition and remedy, one event, and a backoff that a corrected
// spec ends.
func testBMCErrors(t *testing.T, on *testEnv) {
	for err, tc := range map[error]struct {
		kind   string
		status metav1.ConditionStatus
		reason string
		remedy string
	}{
		bmc.ErrUnreachable:    {infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCUnreachable, "spec.bmc.address"},
		bmc.ErrTimeout:        {infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCTimeout, "reset the BMC"},
		bmc.ErrBusy:           {infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCBusy, "sessions"},
		bmc.ErrCertificate:    {infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonCertificateInvalid, "caBundleRef"},
		bmc.ErrUnauthorized:   {infrav1.HostCredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected, "Secret bmc"},
		bmc.ErrPasswordChange: {infrav1.HostCredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonPasswordChangeRequired, "rotate-credentials"},
		bmc.ErrNotSupported:   {infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCUnsupported, "firmware"},
		bmc.ErrProtocol:       {infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCError, "BMC's log"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			y := newFixture(t, on)
			y.bmc.readErr = fmt.Errorf("power state: %w", err)
			y.ready("h")
			for range 3 {
				y.step("h")
			}
			if message := y.want("h", tc.kind, tc.status, tc.reason).Message; !strings.Contains(message, tc.remedy) {
				t.Errorf("message %q names no remedy %q", message, tc.remedy)
			}
			y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, tc.reason)
			reads, before := y.bmc.readsSoFar(), y.get("h")
			y.clock.Step(timing.Default().BMCBackoffFirst - time.Second)
			y.step("h")
			if y.bmc.readsSoFar() != reads {
				t.Error("asked again before the backoff is over")
			}
			y.clock.Step(timing.Default().BMCBackoffFirst)
			y.step("h")
			if y.bmc.readsSoFar() != reads+1 || y.get("h").ResourceVersion != before.ResourceVersion {
				t.Errorf("%d calls, want one more; or the same failure was written again", y.bmc.readsSoFar()-reads)
			}
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC.InsecureSkipVerify = ptr.To(true) })
			y.bmc.readErr = nil
			y.step("h")
			y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
			if y.bmc.forgiven != 1 {
				t.Errorf("for one correction the pool was asked %d times to try at once", y.bmc.forgiven)
			}
			y.recordedOnce(tc.reason)
		})
	}
	t.Run("a switch that fails", func(t *testing.T) {
		y := newFixture(t, on)
		y.ready("h")
		y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
		y.bmc.overrideErr, y.bmc.writeErr = bmc.ErrNotApplied, fmt.Errorf("reset: %w", bmc.ErrBusy)
		y.clock.Step(time.Minute)
		y.step("h")
		y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCBusy)
		y.recordedOnce(infrav1.ReasonBootOverrideNotApplied)
	})
	// I17: the override is read back once, and never set a second time before the
	// power action.
	for name, tc := range map[string]struct {
		shown   bmc.BootOverride
		readErr error
		writes  string
		events  string
	}{
		"an override without an answer, applied":     {bmc.BootOverride{Target: bmc.BootPXE}, nil, "boot PXE UEFI, On", infrav1.ReasonInspecting},
		"an override without an answer, not applied": {bmc.BootOverride{Target: bmc.BootNone}, nil, "boot PXE UEFI, On", infrav1.ReasonBootOverrideNotApplied},
		"an override without an answer, unreadable":  {bmc.BootOverride{}, fmt.Errorf("read: %w", bmc.ErrTimeout), "boot PXE UEFI", infrav1.ReasonBMCTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.ready("h")
			y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
			y.bmc.set(func(f *fakeBMC) {
				f.overrideErr, f.override, f.overrideReadErr = fmt.Errorf("patch: %w", bmc.ErrUnknownOutcome), tc.shown, tc.readErr
			})
			y.clock.Step(time.Minute)
			y.step("h")
			if writes := y.bmc.took(); writes != tc.writes {
				t.Errorf("writes = %q, want %q", writes, tc.writes)
			}
			y.recordedOnce(tc.events)
		})
	}
	t.Run("a switch without an answer", func(t *testing.T) {
		y := newFixture(t, on)
		y.ready("h")
		y.until("h", "ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil })
		y.bmc.writeErr = bmc.ErrUnknownOutcome
		y.clock.Step(time.Minute)
		y.step("h")
		y.step("h") // I17: read again, never repeated at once
		if writes := y.bmc.took(); writes != "boot PXE UEFI, On" {
			t.Errorf("writes = %q", writes)
		}
	})
}

// I8: enrolled hosts, duplicates and hosts without a BMC are not touched.
func testUntouchedHosts(t *testing.T, on *testEnv) {
	found := func(y *fixture, host *infrav1.IngotHost, uuid string) {
		facts, err := hardware.New(host, on.scheme)
		must(y, err)
		facts.Spec.System = infrav1.HardwareSystem{UUID: uuid, SerialNumber: "s"}
		y.create(facts)
	}
	for name, tc := range map[string]struct {
		make   func(*fixture)
		reason string
	}{
		"unmanaged":           {func(y *fixture) { y.ready("h", func(h *infrav1.IngotHost) { h.Spec.BMC = nil }) }, infrav1.ReasonUnmanaged},
		"on without an order": {func(y *fixture) { y.bmc.power = bmc.PowerOn; y.ready("h") }, infrav1.ReasonPoweredOnUnexpectedly},
		"a boot MAC that the BMC does not list": {func(y *fixture) { y.bmc.macs = []string{"02:00:00:00:00:01"}; y.ready("h") },
			infrav1.ReasonBootMACNotFound},
		"the same boot MAC": {func(y *fixture) {
			other := y.ready("other")
			y.ready("h", func(h *infrav1.IngotHost) { h.Spec.BootMACAddress = other.Spec.BootMACAddress })
		}, infrav1.ReasonDuplicate},
		"the same BMC in another spelling": {func(y *fixture) {
			other := y.ready("other")
			y.ready("h", func(h *infrav1.IngotHost) {
				h.Spec.BMC.Address = strings.ToUpper(strings.TrimPrefix(other.Spec.BMC.Address, "redfish://"))
				h.Spec.BMC.Address = "redfish://" + h.Spec.BMC.Address + ":443/redfish/v1/Systems/1"
			})
		}, infrav1.ReasonDuplicate},
		"the same UUID and serial number": {func(y *fixture) {
			id := uuid.NewString()
			found(y, y.ready("other"), id)
			found(y, y.ready("h"), id)
		}, infrav1.ReasonDuplicate},
		"the same boot MAC as another tenant's": {func(y *fixture) {
			other := newFixture(y.t, on).ready("hidden")
			y.ready("h", func(h *infrav1.IngotHost) { h.Spec.BootMACAddress = other.Spec.BootMACAddress })
		}, infrav1.ReasonDuplicate},
		"a duplicate that is deleted during its firmware update": {func(y *fixture) {
			other := y.ready("other", func(h *infrav1.IngotHost) {
				h.Finalizers = []string{infrav1.HostFinalizer}
				h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now(), Preparation: &infrav1.HostPreparation{Update: &infrav1.FirmwareUpdate{
					Component: "BIOS", Version: "2", StartTime: metav1.NewTime(y.clock.Now()), State: infrav1.UpdateAccepted}}}
			})
			must(y, y.api.Delete(y.ctx, other))
			y.ready("h", func(h *infrav1.IngotHost) { h.Spec.BootMACAddress = other.Spec.BootMACAddress })
		}, infrav1.ReasonDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			tc.make(y)
			for range 4 {
				y.step("h")
				y.clock.Step(time.Minute)
			}
			y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, tc.reason)
			y.atRest("h")
			y.namesNoTenant("h")
			if y.get("h").Spec.Order != nil {
				t.Error("an order was written")
			}
		})
	}
	t.Run("what a deleted host of the same name left behind", func(t *testing.T) {
		y := newFixture(t, on)
		old := y.ready("h")
		found(y, old, uuid.NewString())
		y.untilBoot("h", infrav1.OrderInspect)
		y.edit("h", func(h *infrav1.IngotHost) {
			h.Annotations = map[string]string{infrav1.ForceReleaseAnnotation: commandAt(y.clock.Now())}
		})
		must(y, y.api.Delete(y.ctx, y.get("h")))
		y.step("h")
		y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOff })
		y.ready("h")
		for range 4 {
			y.step("h")
		}
		if writes := y.bmc.took(); writes != "" || y.get("h").Spec.Order != nil {
			t.Errorf("booted by an address that is about to be collected: %q", writes)
		}
		y.lose("h") // the garbage collector deletes it, and package inuse releases it
		y.inspect("h")
	})
}

// I6: only a machine with this host and instance in its provider ID keeps the claim.
func testClaims(t *testing.T, on *testEnv) {
	for name, change := range map[string]func(y *fixture, machine *infrav1.IngotMachine){
		"machine gone": func(y *fixture, machine *infrav1.IngotMachine) { must(y, y.api.Delete(y.ctx, machine)) },
		"machine recreated with its name": func(y *fixture, machine *infrav1.IngotMachine) {
			must(y, y.api.Delete(y.ctx, machine))
			y.machine("h", "")
		},
		"machine names another instance": func(y *fixture, machine *infrav1.IngotMachine) {
			machine.Spec.ProviderID = infrav1.ProviderID{Namespace: y.ns, Host: "h", InstanceID: uuid.NewString()}.String()
			must(y, y.api.Update(y.ctx, machine))
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			y.ready("h")
			y.inspect("h")
			y.claim("h")
			machine := &infrav1.IngotMachine{}
			must(y, y.api.Get(y.ctx, client.ObjectKey{Namespace: y.ns, Name: "m-h"}, machine))
			change(y, machine)
			for range 3 {
				y.clock.Step(time.Minute)
				y.step("h")
			}
			y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonMachineNotFound)
			y.recordedOnce(infrav1.ReasonMachineNotFound)
			y.atRest("h")
			y.edit("h", func(h *infrav1.IngotHost) {
				h.Annotations = map[string]string{infrav1.ReleaseAnnotation: commandAt(y.clock.Now())}
			})
			y.until("h", "released", func(h *infrav1.IngotHost) bool { return h.Spec.Claim == nil })
		})
	}
}

// Missing and full networks are shown, and used as soon as that changes.
func testNetwork(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.ready("h", func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = y.ns + "-later" })
	for range 3 {
		y.step("h")
	}
	y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonNetworkMissing)
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: y.ns + "-later"}, Spec: infrav1.IngotNetworkSpec{
		Mode: infrav1.DHCPModeReserve, Subnet: "198.51.100.0/24", Gateway: "198.51.100.1",
		Range: infrav1.AddressRange{Start: "198.51.100.1", End: "198.51.100.1"}}}
	y.create(network)
	y.step("h")
	y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonAddressesExhausted)
	y.atRest("h")
	network.Spec.Range.End = "198.51.100.9"
	must(y, y.api.Update(y.ctx, network))
	y.inspect("h")

	// A missing CA is shown as well.
	y.ready("ca", func(h *infrav1.IngotHost) { h.Spec.BMC.CABundleRef = &infrav1.CABundleReference{Name: "ca"} })
	for range 3 {
		y.step("ca")
	}
	y.want("ca", infrav1.HostBMCReachableCondition, metav1.ConditionUnknown, infrav1.ReasonCABundleMissing)
	y.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: "ca"}, Data: map[string]string{"ca.crt": "pem"}})
	y.step("ca")
	y.want("ca", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)

	// With another DHCP server, no address is recorded, and hosts boot.
	p := newFixture(t, on)
	p.create(&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: p.ns + "-proxy"},
		Spec: infrav1.IngotNetworkSpec{Mode: infrav1.DHCPModeProxy, Subnet: "198.51.100.0/24"}})
	p.ready("h", func(h *infrav1.IngotHost) { h.Spec.NetworkRef.Name = p.ns + "-proxy" })
	p.inspect("h")
	facts := &infrav1.IngotHardware{}
	if err := p.api.Get(p.ctx, client.ObjectKey{Namespace: p.ns, Name: "h"}, facts); client.IgnoreNotFound(err) != nil || facts.Spec.Address != nil {
		t.Errorf("%+v is recorded, %v, want nothing", facts.Spec.Address, err)
	}
}
