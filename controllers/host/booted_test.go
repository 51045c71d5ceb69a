// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// I3: a system reports once, and a lost status is rebuilt from what was kept of it;
// a report of an earlier claim is nobody's.
func TestShowBooted(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	shown := func(instance, address string) infrav1.IngotHostStatus {
		return infrav1.IngotHostStatus{Booted: &infrav1.BootedStatus{InstanceID: instance, Hostname: "m", Time: at}, Addresses: []string{address}}
	}
	kept := func(instance string) *infrav1.IngotHardware {
		hardware := &infrav1.IngotHardware{}
		hardware.Spec.Booted = &infrav1.BootedSystem{InstanceID: instance, Hostname: "m", Time: at, Addresses: []string{"192.0.2.1"}}
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
