// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory"
)

// Each field of an IngotHardware that an agent does not report survives its sessions, including future
// fields.
func TestWhatIsRecordedStays(t *testing.T) {
	said := found()
	said.Firmware, said.CPU = "UEFI", agentapi.CPU{Model: "c", Cores: 4}
	said.StorageWithoutDriver = []agentapi.PCIDevice{{Address: "0000:3b:00.0"}}
	byAgent := reflect.ValueOf(inventory.HardwareFromAgent(said))
	recorded := infrav1.IngotHardwareSpec{
		Address:     &infrav1.RecordedAddress{NetworkName: "net", MAC: bootMAC, IP: here},
		IPv6Address: &infrav1.RecordedAddress{NetworkName: "net", MAC: bootMAC, IP: "2001:db8::7"},
		BMC:         &infrav1.PinnedBMC{Address: "redfish://bmc", CertificateFingerprint: "sha256:00"},
		Booted:      &infrav1.BootedSystem{InstanceID: instanceID, ReportTime: metav1.NewTime(time.Unix(1000, 0))},
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
	if after.Spec.MemoryBytes != said.MemoryBytes {
		t.Errorf("what the agent found is not kept: %d bytes of memory", after.Spec.MemoryBytes)
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

// I22: only an inspection writes the identity of a host. Other sessions are rejected if they report another
// identity, or none.
func TestOnlyInspectionWritesIdentity(t *testing.T) {
	const other = "44444444-4444-4444-4444-444444444444"
	mine := infrav1.HardwareSystem{UUID: "11111111-1111-1111-1111-111111111111", SerialNumber: "S1"}
	inspecting := func(h *infrav1.IngotHost) { h.Spec.Order.Kind, h.Spec.Claim = infrav1.OrderInspect, nil }
	wiping := func(h *infrav1.IngotHost) {
		h.Spec.Order.Kind, h.Spec.Claim.State = infrav1.OrderClean, infrav1.ClaimReleasing
	}
	none := func(*infrav1.IngotHost) {}
	for name, tc := range map[string]struct {
		purpose token.Purpose
		change  func(*infrav1.IngotHost)
		known   *infrav1.HardwareSystem // nil: there are no facts
		uuid    string
		serial  string
		want    infrav1.HardwareSystem
		refused agentapi.Reason
	}{
		"install, the same":          {token.Install, none, &mine, mine.UUID, "S1", mine, ""},
		"install, another":           {token.Install, none, &mine, other, "S4", mine, agentapi.ReasonHardwareMismatch},
		"install, none":              {token.Install, none, &mine, "", "", mine, agentapi.ReasonHardwareMismatch},
		"install, another serial":    {token.Install, none, &mine, mine.UUID, "S4", mine, ""},
		"install, another UUID":      {token.Install, none, &mine, other, "S1", mine, ""},
		"install, none was known":    {token.Install, none, &infrav1.HardwareSystem{}, other, "S4", infrav1.HardwareSystem{}, ""},
		"install, no facts":          {token.Install, none, nil, other, "S4", infrav1.HardwareSystem{}, ""},
		"clean, the same":            {token.Clean, wiping, &mine, mine.UUID, "S1", mine, ""},
		"clean, another":             {token.Clean, wiping, &mine, other, "S4", mine, agentapi.ReasonHardwareMismatch},
		"clean, none":                {token.Clean, wiping, &mine, "", "", mine, agentapi.ReasonHardwareMismatch},
		"an inspection, another":     {token.Inspect, inspecting, &mine, other, "S4", infrav1.HardwareSystem{UUID: other, SerialNumber: "S4"}, ""},
		"an inspection, none before": {token.Inspect, inspecting, nil, other, "S4", infrav1.HardwareSystem{UUID: other, SerialNumber: "S4"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := slices.DeleteFunc(world(), func(o client.Object) bool { _, is := o.(*infrav1.IngotHardware); return is })
			facts := recorded(here)
			if tc.known != nil {
				facts.Spec.System = *tc.known
				objects = append(objects, facts)
			}
			s := newSite(t, objects...)
			s.change(func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = ""; tc.change(h) })
			a := s.agent(claimsOf(tc.purpose), here)
			said := found()
			said.UUID, said.Serial = tc.uuid, tc.serial
			if _, reason := call[agentapi.Session](a, agentapi.PathSession, agentapi.SessionRequest{BootID: "b", Version: "v", Hardware: said}); reason != tc.refused {
				t.Errorf("answered %q, want %q", reason, tc.refused)
			}
			after := &infrav1.IngotHardware{}
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(facts), after); err != nil {
				t.Fatal(err)
			}
			got := infrav1.HardwareSystem{UUID: after.Spec.System.UUID, SerialNumber: after.Spec.System.SerialNumber}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
		})
	}
}

// I22: no inspection takes the identity of a host in another namespace, which would make both duplicates.
// Facts without a host do not matter.
func TestInspectionTakesNoIdentityOfOthers(t *testing.T) {
	theirs := infrav1.HardwareSystem{UUID: "44444444-4444-4444-4444-444444444444", SerialNumber: "S4"}
	mine := infrav1.HardwareSystem{UUID: "11111111-1111-1111-1111-111111111111", SerialNumber: "S1"}
	enrolled := func(h *infrav1.IngotHost) { h.Labels = map[string]string{infrav1.EnrolledLabel: ""} }
	moved := func(h *infrav1.IngotHost) {
		h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	}
	inUse := func(h *infrav1.IngotHost) { h.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioned} }
	for name, tc := range map[string]struct {
		namespace string
		other     func(*infrav1.IngotHost) // nil: the host of the facts is gone
		known     *infrav1.HardwareSystem  // of the host that is inspected; nil: none
		refused   bool
	}{
		"a free host's":                           {"other", func(*infrav1.IngotHost) {}, &mine, true},
		"a free host's, at the first inspection":  {"other", func(*infrav1.IngotHost) {}, nil, true},
		"a host's in use":                         {"other", inUse, &mine, true},
		"a host's in use, whatever it says":       {"other", func(h *infrav1.IngotHost) { inUse(h); enrolled(h); moved(h) }, &mine, true},
		"of the same namespace":                   {"metal", func(*infrav1.IngotHost) {}, &mine, false},
		"of a machine that waits for approval":    {"other", enrolled, &mine, false},
		"of a host that is moved away":            {"other", moved, &mine, false},
		"of a host that is gone":                  {"other", nil, &mine, false},
		"that it has already, as after a mistake": {"other", func(*infrav1.IngotHost) {}, &theirs, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := slices.DeleteFunc(world(), func(o client.Object) bool { _, is := o.(*infrav1.IngotHardware); return is })
			meta := metav1.ObjectMeta{Namespace: tc.namespace, Name: "theirs"}
			facts := &infrav1.IngotHardware{ObjectMeta: meta, Spec: infrav1.IngotHardwareSpec{System: theirs}}
			objects = append(objects, facts)
			if tc.other != nil {
				host := &infrav1.IngotHost{ObjectMeta: meta}
				tc.other(host)
				objects = append(objects, host)
			}
			if tc.known != nil {
				own := recorded(here)
				own.Spec.System = *tc.known
				objects = append(objects, own)
			}
			s := newSite(t, objects...)
			s.change(func(h *infrav1.IngotHost) {
				h.Spec.Order.AgentKey, h.Spec.Order.Kind, h.Spec.Claim = "", infrav1.OrderInspect, nil
			})
			said := found()
			said.UUID, said.Serial = theirs.UUID, theirs.SerialNumber
			_, reason := call[agentapi.Session](s.agent(claimsOf(token.Inspect), here), agentapi.PathSession, agentapi.SessionRequest{BootID: "b", Version: "v", Hardware: said})
			after := &infrav1.IngotHardware{}
			if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "metal", Name: "h1"}, after); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			if refused := reason == agentapi.ReasonHardwareMismatch; refused != tc.refused || refused == (after.Spec.System == theirs) {
				t.Errorf("answered %q, and its identity is %+v", reason, after.Spec.System)
			}
			result := s.host().Spec.Order.Result
			if !tc.refused {
				return
			}
			if result == nil || result.Reason != infrav1.ReasonDuplicate || strings.Contains(result.Message, "theirs") || len(result.Message) > maxMessage {
				t.Errorf("the order ends with %+v", result)
			}
		})
	}
}

// I15: the bootstrap data is given at the end of an install: after the agent has verified
// the claim's image in its session.
func TestBootstrapAfterVerification(t *testing.T) {
	s := newSite(t, world()...)
	a := s.agent(claimsOf(token.Install), here)
	if reason := a.open(); reason != "" {
		t.Fatal(reason)
	}
	for name, checksum := range map[string]string{"at once": "", "another image": "sha256:" + secondKey} {
		data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: orderID, VerifiedChecksum: checksum})
		if reason != agentapi.ReasonBadRequest || data.UserData != "" {
			t.Errorf("%s: answered %q", name, reason)
		}
	}
	if !s.eventWith(infrav1.ReasonAgentRequestRejected) {
		t.Errorf("no event: %q", s.seen)
	}
	if data, reason := call[agentapi.Bootstrap](a, agentapi.PathBootstrap, seedRequest()); reason != "" || !strings.Contains(string(data.UserData), canary) {
		t.Errorf("after the verification: %q", reason)
	}
}

// A storage controller without visible disks causes one event per order.
func TestStorageWithoutDriver(t *testing.T) {
	for name, blind := range map[string][]agentapi.PCIDevice{"none": nil, "one": {{Address: "0000:3b:00.0", ID: "1000:0073"}}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, world()...)
			said := found()
			said.StorageWithoutDriver = blind
			agent := s.agent(claimsOf(token.Install), here)
			for range 2 {
				if _, reason := call[agentapi.Session](agent, agentapi.PathSession,
					agentapi.SessionRequest{BootID: "b", Version: "v", Hardware: said}); reason != "" {
					t.Fatalf("refused: %s", reason)
				}
			}
			if told := s.eventWith(infrav1.ReasonStorageWithoutDriver); told != (blind != nil) {
				t.Errorf("told: %t; events %q", told, s.seen)
			}
			times := 0
			for _, event := range s.seen {
				if strings.Contains(event, "1000:0073 at 0000:3b:00.0") {
					times++
				}
			}
			if times != len(blind) {
				t.Errorf("told %d times: %q", times, s.seen)
			}
		})
	}
}

// An old agent, which does not report controllers, does not remove them from the facts.
func TestAgentsThatDoNotLook(t *testing.T) {
	blind := []infrav1.HardwareController{{Address: "0000:3b:00.0"}}
	for name, tc := range map[string]struct {
		said []agentapi.PCIDevice
		want []infrav1.HardwareController
	}{
		"does not look": {nil, blind},
		"sees all":      {[]agentapi.PCIDevice{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := recorded(here)
			before.Spec.StorageWithoutDriver = blind
			s := newSite(t, append(world(), before)...)
			said := found()
			said.StorageWithoutDriver = tc.said
			if _, reason := call[agentapi.Session](s.agent(claimsOf(token.Install), here), agentapi.PathSession,
				agentapi.SessionRequest{BootID: "b", Version: "v", Hardware: said}); reason != "" {
				t.Fatalf("refused: %s", reason)
			}
			after := &infrav1.IngotHardware{}
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(before), after); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, after.Spec.StorageWithoutDriver); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
