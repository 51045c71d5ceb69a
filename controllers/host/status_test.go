// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// The agent's progress stays until the step ends.
func TestOperationOf(t *testing.T) {
	began, later := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	order := func(change func(*infrav1.HostOrder)) *infrav1.HostOrder {
		out := &infrav1.HostOrder{Kind: infrav1.OrderInstall, CreationTime: began, Attempt: 2}
		if change != nil {
			change(out)
		}
		return out
	}
	writing := infrav1.HostOperation{
		Kind: infrav1.OrderInstall, Step: "Writing", Percent: ptr.To[int32](0), Bytes: 3 << 30, StartTime: began, Attempt: 2, LastContactTime: later,
	}
	poweringOff := writing
	poweringOff.Step, poweringOff.Percent, poweringOff.Bytes = stepPoweringOff, ptr.To[int32](100), 0
	for name, tc := range map[string]struct {
		order *infrav1.HostOrder
		want  *infrav1.HostOperation
	}{
		"at work":          {order(nil), &writing},
		"it has its end":   {order(func(o *infrav1.HostOrder) { o.Result = &infrav1.OrderResult{} }), &poweringOff},
		"it is revoked":    {order(func(o *infrav1.HostOrder) { o.Revoked = ptr.To(true) }), &poweringOff},
		"another order":    {order(func(o *infrav1.HostOrder) { o.CreationTime = later }), &infrav1.HostOperation{Kind: infrav1.OrderInstall, Step: stepBooting, Percent: ptr.To[int32](0), StartTime: later, Attempt: 2}},
		"no order is left": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{}
			host.Spec.Order, host.Status.Operation = tc.order, writing.DeepCopy()
			if diff := cmp.Diff(tc.want, operationOf(host)); diff != "" {
				t.Errorf("operationOf (-want +got):\n%s", diff)
			}
		})
	}
}

// I3: a lost report is restored from IngotHardware, and reports of earlier claims are ignored.
func TestShowBooted(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	shown := func(instance, address string) infrav1.IngotHostStatus {
		return infrav1.IngotHostStatus{Booted: &infrav1.BootedStatus{InstanceID: instance, Hostname: "m", ReportTime: at}, Addresses: []string{address}}
	}
	kept := func(instance string) *infrav1.IngotHardware {
		hardware := &infrav1.IngotHardware{}
		hardware.Spec.Booted = &infrav1.BootedSystem{InstanceID: instance, Hostname: "m", ReportTime: at, Addresses: []string{"192.0.2.1"}}
		return hardware
	}
	for name, tc := range map[string]struct {
		claim    string
		status   infrav1.IngotHostStatus
		hardware *infrav1.IngotHardware
		want     infrav1.IngotHostStatus
	}{
		"rebuilt":                   {claim: "i", hardware: kept("i"), want: shown("i", "192.0.2.1")},
		"what is shown stays":       {claim: "i", status: shown("i", "192.0.2.9"), hardware: kept("i"), want: shown("i", "192.0.2.9")},
		"kept of an earlier claim":  {claim: "i", hardware: kept("old")},
		"shown of an earlier claim": {claim: "i", status: shown("old", "192.0.2.9"), hardware: kept("i"), want: shown("i", "192.0.2.1")},
		"released":                  {status: shown("i", "192.0.2.9"), hardware: kept("i")},
		"nothing known":             {claim: "i"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{Status: tc.status}
			if tc.claim != "" {
				host.Spec.Claim = &infrav1.HostClaim{InstanceID: tc.claim}
			}
			showBooted(host, tc.hardware)
			if diff := cmp.Diff(tc.want, host.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}
