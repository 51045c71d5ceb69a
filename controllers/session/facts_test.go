// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/token"
	"github.com/ingot-metal/ingot/inventory"
)

// What others recorded in an IngotHardware outlives every session of an agent: each
// field that an agent has no say in, those that are still to be invented as well.
func TestWhatIsRecordedStays(t *testing.T) {
	said := found()
	said.Firmware, said.CPU = "UEFI", agentapi.CPU{Model: "c", Cores: 4}
	byAgent := reflect.ValueOf(inventory.HardwareFromAgent(said))
	recorded := infrav1.IngotHardwareSpec{
		Address:     &infrav1.RecordedAddress{NetworkName: "net", MAC: bootMAC, IP: here},
		IPv6Address: &infrav1.RecordedAddress{NetworkName: "net", MAC: bootMAC, IP: "2001:db8::7"},
		BMC:         &infrav1.PinnedBMC{Address: "redfish://bmc", CertificateFingerprint: "sha256:00"},
		Booted:      &infrav1.BootedSystem{InstanceID: instanceID, Time: metav1.NewTime(time.Unix(1000, 0))},
	}
	before := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "h1"}, Spec: recorded}
	s := newSite(t, append(world(), before)...)
	if reason := s.agent(claimsOf(token.Install), here).open(); reason != "" {
		t.Fatalf("refused: %s", reason)
	}
	after := &infrav1.IngotHardware{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "metal", Name: "h1"}, after); err != nil {
		t.Fatal(err)
	}
	if after.Spec.System.SerialNumber != said.Serial {
		t.Errorf("what the agent found is not kept: %+v", after.Spec.System)
	}
	for i := range byAgent.NumField() {
		field := byAgent.Type().Field(i).Name
		if !byAgent.Field(i).IsZero() {
			continue
		}
		want := reflect.ValueOf(recorded).Field(i)
		if want.IsZero() {
			t.Errorf("%s is not what an agent finds: this test must record one, and keepFacts keep it", field)
		}
		if diff := cmp.Diff(want.Interface(), reflect.ValueOf(after.Spec).Field(i).Interface()); diff != "" {
			t.Errorf("%s (-recorded +after the session):\n%s", field, diff)
		}
	}
}
